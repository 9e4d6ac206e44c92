"""The foundation benchmark's results: its file, tables, plots, and the command that makes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from thetabench.foundation import tables
from thetabench.foundation.paper import PAPER
from thetabench.foundation.tables import best_peer, cell_table, short_table
from thetabench.grid import by_cell
from thetabench.line import Line
from thetabench.plots import plot
from thetabench.tables import filled, insert, marks
from thetastream.errors import DataError

from .bench_command import command

ROOT = Path(__file__).resolve().parents[2]


def sample() -> list[Line]:
    speeds = {
        1024: {"thetastream": 2.5e6, "btrees": 0.5e6, "numpy": 900.0},
        8192: {"thetastream": 0.6e6, "btrees": 0.8e6},
    }
    lines = [
        PAPER.columns.line(
            experiment="sample",
            figure="W1",
            predicate="abs(l.x - r.x) <= 2048",
            window=1 << 20,
            place=float(batch),
            contestant=name,
            tuples_per_s=speed,
            verified=True,
            checksum="00ff",
            versions=f"{name} 1.0",
            cpu="A Processor",
            cores=2,
            memory_bytes=8 << 30,
            python="3.11",
            system="Linux",
            date="2026-01-01",
        )
        for batch, by_name in speeds.items()
        for name, speed in by_name.items()
    ]
    last = lines[-1].but(contestant="numpy", status="not run", reason="one push takes 9 s")
    return [*lines, last]


def test_results_come_back_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "sample.csv"
    PAPER.write(path, sample())
    assert PAPER.read(path) == sample()
    assert path.read_text(encoding="utf-8").startswith("workload,contestant,axis,batch,status,")
    PAPER.write(path, sample()[:1])
    assert PAPER.read(path) == sample()[:1], "a run replaces the file, it does not append"


def test_cells_measured_again_replace_their_own_lines_only() -> None:
    other = [sample()[0].but(window=1 << 16), sample()[0].but(figure="W3")]
    again = sample()[0].but(tuples_per_s=1.0)
    lines = PAPER.together([*other, *sample()], [again])
    assert lines == [other[0], again, *sample()[3:], other[1]]


def test_files_that_are_no_results_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Run `thetastream bench foundation` first"):
        PAPER.read(tmp_path / "absent.csv")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="is not a file of the foundation benchmark"):
        PAPER.read(tmp_path / "other.csv")


def test_the_best_peer_is_never_thetastream() -> None:
    best = [best_peer(own) for own in by_cell(sample()).values()]
    assert [line.contestant for line in best if line] == ["btrees", "btrees"]
    assert best_peer([]) is None


def test_the_table_shows_wins_losses_gaps_and_the_machine() -> None:
    text = cell_table(sample())
    lines = text.splitlines()
    assert lines[0] == (
        "| workload | window | batch | thetastream | best peer | ratio | btrees | numpy |"
    )
    assert lines[2] == ("| W1 | 1,048,576 | 1,024 | 2.50 | btrees | **5.0 ×** | 0.50 | 0.0009 |")
    assert lines[3] == ("| W1 | 1,048,576 | 8,192 | 0.60 | btrees | 0.75 × (slower) | 0.80 | – |")
    assert "A Processor, 2 cores, 8 GiB" in text
    assert "btrees 1.0, numpy 1.0, thetastream 1.0" in text
    assert "numpy W1 1,048,576/8,192: one push takes 9 s" in text


def test_the_short_table_shows_the_best_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert short_table(sample()) == "", "not all of its cells are there"
    monkeypatch.setattr(tables, "SHOWN", [("W1", 1 << 20, 8192)])
    lines = short_table(sample()).splitlines()
    row = "| one band | 1,048,576 | 8,192 | 0.60 | `btrees` | 0.80 | 0.75 × (slower) |"
    assert lines[2] == row
    assert "A Processor, 2026-01-01" in lines[-1]


@pytest.mark.parametrize(
    ("page", "table"), list(zip(PAPER.pages, ("cells", "summary"), strict=True))
)
def test_tables_are_made_and_not_typed(page: str, table: str) -> None:
    lines = PAPER.read(ROOT / "benchmarks/results/foundation.csv")
    text = (ROOT / page).read_text(encoding="utf-8")
    begin, _ = marks("foundation", table)
    assert text.count(begin) == 1
    assert filled(PAPER, text, lines, {}) == text


def test_the_table_goes_between_its_marks_and_nowhere_else() -> None:
    begin, end = marks("foundation", "cells")
    page = f"# Title\n{begin}\nold\n{end}\nrest\n"
    once = insert(page, "new", begin, end)
    assert once == f"# Title\n{begin}\nnew\n{end}\nrest\n"
    assert insert(once, "new", begin, end) == once
    with pytest.raises(DataError, match="needs the marks"):
        insert(f"{end} {begin}", "new", begin, end)


def test_plots_are_drawn_as_pictures_with_every_contestant(tmp_path: Path) -> None:
    files = plot(PAPER, sample(), tmp_path, "sample")
    assert [file.name for file in files] == ["sample-w1.png", "sample-w1.svg"]
    assert files[0].read_bytes().startswith(b"\x89PNG")
    drawing = files[1].read_text(encoding="utf-8")
    for name in ("thetastream", "btrees", "numpy"):
        assert f"<!-- {name} -->" in drawing
    plot(PAPER, sample(), tmp_path, "again")
    assert (tmp_path / "again-w1.svg").read_text(encoding="utf-8") == drawing, "reproducible"


def test_the_command_measures_and_writes(tmp_path: Path) -> None:
    arguments = ["quick", "--workload", "W1", "--window", "256", "--batch", "64"]
    arguments += ["--contestant", "thetastream", "--contestant", "numpy", "--seconds", "0.05"]
    done = command(*arguments, "--output", str(tmp_path), "--plots")
    assert done.exit_code == 0, done.output
    assert "all answers verified" in done.output
    lines = PAPER.read(tmp_path / "quick.csv")
    assert [line.contestant for line in lines] == ["thetastream", "numpy"]
    assert all(line.verified and line.window == 256 for line in lines)
    assert lines[0].experiment == "quick"
    assert lines[0].ns_probe > 0
    assert lines[0].index_bytes > 0
    assert (tmp_path / "quick-w1.png").exists()


def test_a_contestant_that_fails_has_a_line_and_an_exit_code(tmp_path: Path) -> None:
    arguments = ("quick", "--workload", "W1", "--contestant", "thetastream:tactic=no-such-tactic")
    done = command(*arguments, "--output", str(tmp_path))
    assert done.exit_code == 1
    assert "thetastream:tactic=no-such-tactic failed" in done.output
    (line,) = PAPER.read(tmp_path / "quick.csv")
    assert line.status == "failed"


def test_the_command_lists_what_there_is() -> None:
    done = command("--list")
    assert done.exit_code == 0
    for word in ("foundation", "quick", "duckdb-bucket", "thetastream"):
        assert word in done.output
