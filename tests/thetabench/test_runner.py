"""Measuring and verifying: honest contestants pass, a lying one is caught, misfits are named."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from thetabench.digest import Digest, VerificationError, digest, verify
from thetabench.feed import Feed
from thetabench.figure import Asked, Sizes
from thetabench.foundation.course import FoundationCourse, skipped
from thetabench.foundation.paper import PAPER
from thetabench.foundation.worker import measure
from thetabench.grid import GridCell, grid_cells
from thetabench.line import Line
from thetabench.papers import paper
from thetabench.peers import PEERS
from thetabench.peers.numpy_scan import NumpyScan
from thetabench.query import Query
from thetabench.reference import reference
from thetastream.errors import DataError, PredicateError, RegistryError
from thetastream.side import Side

from .bench_nested import feed


def cell(workload: str, window: int, batch: int, *names: str) -> GridCell:
    (one,) = grid_cells(workload, [window], [batch], lambda window: names)
    return one


def run_cell(
    one: GridCell, seconds: float = 0.01, repeat: int = 1, limit: float = 60.0
) -> tuple[list[Line], list[str]]:
    """The lines of a cell, and every step."""
    steps: list[str] = []
    value = replace(PAPER, course=partial(FoundationCourse, least=64, limit=limit))
    sizes = Sizes(seconds=seconds, asked=Asked(repeat=repeat))
    (lines,) = value.run([one], sizes, steps.append)
    return lines, steps


class Liar(NumpyScan):
    """Answers as many pairs as there are, but one of them has its two ids exchanged."""

    def push(self, side: Side, rows: pa.RecordBatch) -> pa.Table:
        answer = super().push(side, rows)
        left, right = (answer[name].to_pylist() for name in ("id", "id_right"))
        if left:
            left[0], right[0] = right[0], left[0] + 1
        return pa.table({"id": pa.array(left, pa.int64()), "id_right": pa.array(right, pa.int64())})


def test_an_honest_report_is_verified_and_complete() -> None:
    data = feed("band")
    report = measure(data, "numpy", 60.0)
    truth = reference(data, data.pushes)
    assert len(report["seconds"]) == len(report["digests"]) == data.pushes
    assert 0 < report["untimed"] < data.pushes
    total = verify("numpy", report["digests"], truth)
    assert total.matches == sum(found.matches for found in truth) > 0
    assert report["phases"]["probe"] > 0


def test_a_lying_contestant_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PEERS, "liar", Liar)
    data = feed("band")
    report = measure(data, "liar", 60.0)
    truth = reference(data, data.pushes)
    assert [d[0] for d in report["digests"]] == [d.matches for d in truth], "counts look right"
    with pytest.raises(VerificationError, match=r"liar gave a wrong answer in push 0"):
        verify("liar", report["digests"], truth)


@pytest.mark.parametrize("change", ["drop", "double", "swap"])
def test_every_change_of_an_answer_changes_its_digest(change: str) -> None:
    rows = [(1, 7), (2, 7), (3, 9)]
    changed = {"drop": rows[:2], "double": [*rows, rows[0]], "swap": [*rows[:2], (9, 3)]}[change]
    assert _digest(rows) == _digest(rows[::-1])
    assert _digest(rows) != _digest(changed)
    assert _digest(rows[:1]) + _digest(rows[1:]) == _digest(rows)


def test_a_cell_gives_one_line_per_contestant_even_if_it_was_not_run() -> None:
    names = ("numpy", "btrees", "duckdb-bucket")
    results, steps = run_cell(cell("W2", 256, 64, *names), seconds=0.05, repeat=2)
    found = {result.contestant: result for result in results}
    assert tuple(found) == names
    assert found["duckdb-bucket"].status == "not run"
    assert found["duckdb-bucket"].reason == "no form for this predicate"
    for name in ("numpy", "btrees"):
        result = found[name]
        assert result.ran
        assert result.verified
        assert result.repetitions == 2
        assert result.tuples_per_s_low <= result.tuples_per_s <= result.tuples_per_s_high
        assert result.tuples == result.pushes * 64
        assert result.p50_s <= result.p99_s <= result.max_s
        assert result.matches > 0
        assert result.rss_bytes > 0
        assert result.cores >= 1
    common = found["numpy"].checked_pushes == found["btrees"].checked_pushes
    assert not common or found["numpy"].checksum == found["btrees"].checksum
    assert steps[-1].endswith("checking answers")


def test_a_contestant_whose_process_fails_or_hangs_gets_a_reason() -> None:
    (result,), _ = run_cell(cell("W1", 64, 16, "thetastream:tactic=no-such-tactic"))
    assert result.status == "failed"
    assert result.reason
    (result,), _ = run_cell(cell("W1", 64, 16, "numpy"), limit=0.01)
    assert (result.status, result.reason) == ("not run", "stopped after 0 s")


def test_hopeless_cells_are_skipped_with_a_reason() -> None:
    query = Query.parse("abs(l.x - r.x) <= 1", 1 << 23)
    assert "one push would take" in skipped("numpy", query, 1 << 15)
    assert not skipped("thetastream", query, 1 << 15)


def test_grids_are_narrowed_and_extended() -> None:
    everything = PAPER.cells([], Sizes())
    assert len(everything) == 9 + 6 + 6
    asked = Asked(windows=[1 << 20], batches=[1 << 13])
    assert PAPER.cells(["W1"], Sizes(asked=asked)) == [
        c for c in everything if (c.figure, c.window, c.batch) == ("W1", 1 << 20, 1 << 13)
    ]
    small = Sizes(asked=Asked(windows=[100], contestants=["numpy"]))
    (other,) = paper("quick").cells(["W3"], small)
    assert (other.figure, other.window, other.batch) == ("W3", 100, 1 << 9)
    assert [who.label for who in other.contestants] == ["numpy"]
    with pytest.raises(RegistryError, match="workload must be one of"):
        PAPER.cells(["W9"], Sizes())
    with pytest.raises(RegistryError, match="Did you mean 'numpy'"):
        PAPER.cells([], Sizes(asked=Asked(contestants=["numpi"])))
    with pytest.raises(RegistryError, match="Did you mean 'quick'"):
        paper("quik")


def test_a_feed_survives_its_folder(tmp_path: Path) -> None:
    for self_join in (False, True):
        folder = tmp_path / str(self_join)
        folder.mkdir()
        data = feed("plane", self_join=self_join)
        data.save(folder)
        again = Feed.load(folder)
        assert again == data
        assert again.pushes == data.pushes


def test_a_feed_without_a_push_is_refused() -> None:
    with pytest.raises(DataError, match="make more rows or a smaller batch"):
        feed("band", rows=50, window=40, batch=16)


@pytest.mark.parametrize("text", ["l.x <> r.x", "abs(l.x - r.y) <= 3", "l.x < 5"])
def test_unknown_predicate_shapes_are_pointed_at(text: str) -> None:
    with pytest.raises(PredicateError, match="benchmark peers know"):
        Query.parse(f"l.a < r.a AND {text}", 10)


def _digest(rows: list[tuple[int, int]]) -> Digest:
    left, right = ([row[place] for row in rows] for place in (0, 1))
    return digest(
        pa.table({"id": pa.array(left, pa.int64()), "id_right": pa.array(right, pa.int64())})
    )
