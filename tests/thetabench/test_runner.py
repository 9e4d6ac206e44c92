"""Measuring and verifying: honest contestants pass, a lying one is caught, misfits are named."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from thetabench.digest import Digest, VerificationError, digest, verify
from thetabench.experiment import EXPERIMENTS, Cell, Experiment, experiment
from thetabench.feed import Feed
from thetabench.peers import PEERS
from thetabench.peers.numpy_scan import NumpyScan
from thetabench.query import Query
from thetabench.reference import reference
from thetabench.runner import run_cell
from thetabench.worker import measure
from thetastream.errors import DataError, PredicateError, RegistryError
from thetastream.side import Side

from .bench_nested import feed

SMALL = Experiment("small", "", (), ("numpy", "btrees", "duckdb-bucket"), seconds=0.05)


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
    steps: list[str] = []
    cell = Cell("W2", window=256, batch=64, rows=512)
    results = run_cell(SMALL, cell, repetitions=2, progress=steps.append)
    found = {result.contestant: result for result in results}
    assert list(found) == list(SMALL.contestants)
    assert found["duckdb-bucket"].status == "not run"
    assert found["duckdb-bucket"].reason == "no form for this predicate"
    for name in ("numpy", "btrees"):
        result = found[name]
        assert result.ran
        assert result.verified
        assert result.repetitions == 2
        assert result.tuples_per_s_low <= result.tuples_per_s <= result.tuples_per_s_high
        assert result.rows == result.pushes * 64
        assert result.p50_s <= result.p99_s <= result.max_s
        assert result.matches > 0
        assert result.rss_bytes > 0
        assert result.cores >= 1
    common = found["numpy"].checked_pushes == found["btrees"].checked_pushes
    assert not common or found["numpy"].checksum == found["btrees"].checksum
    assert steps[-1].endswith("checking answers")


def test_a_contestant_whose_process_fails_or_hangs_gets_a_reason() -> None:
    cell = Cell("W1", window=64, batch=16, rows=64)
    failing = Experiment("small", "", (), ("thetastream:tactic=no-such-tactic",), seconds=0.01)
    (result,) = run_cell(failing, cell)
    assert result.status == "failed"
    assert result.reason
    hanging = Experiment("small", "", (), ("numpy",), seconds=0.01, limit=0.01)
    (result,) = run_cell(hanging, cell)
    assert (result.status, result.reason) == ("not run", "stopped after 0 s")


def test_hopeless_cells_are_skipped_with_a_reason() -> None:
    query = Query.parse("abs(l.x - r.x) <= 1", 1 << 23)
    cell = Cell("W1", 1 << 23, 1 << 15, 1 << 23)
    assert "one push would take" in str(cell.skip("numpy", query))
    assert cell.skip("thetastream", query) is None


def test_experiments_are_narrowed_and_extended() -> None:
    foundation = experiment("foundation")
    assert len(foundation.cells) == 9 + 6 + 6
    one = foundation.narrowed(workloads=["W1"], windows=[1 << 20], batches=[1 << 13])
    assert one.cells == tuple(
        c for c in foundation.cells if (c.workload, c.window, c.batch) == ("W1", 1 << 20, 1 << 13)
    )
    other = EXPERIMENTS["quick"].narrowed(workloads=["W3"], windows=[100], contestants=["numpy"])
    assert [(c.workload, c.window) for c in other.cells] == [("W3", 100)]
    assert other.contestants == ("numpy",)
    with pytest.raises(RegistryError, match="workload must be one of"):
        foundation.narrowed(workloads=["W9"])
    with pytest.raises(RegistryError, match="Did you mean 'quick'"):
        experiment("quik")


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
