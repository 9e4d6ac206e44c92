"""Result files, tables, plots and the command that makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from thetabench import table
from thetabench.grid_plots import plot
from thetabench.result import Result, best_peer, cells, read, write
from thetabench.table import markdown, summary
from thetabench.tables import BEGIN, END, insert
from thetastream.cli import app
from thetastream.errors import DataError


def sample() -> list[Result]:
    results = []
    speeds = {
        1024: {"thetastream": 2.5e6, "btrees": 0.5e6, "numpy": 900.0},
        8192: {"thetastream": 0.6e6, "btrees": 0.8e6},
    }
    for batch, by_name in speeds.items():
        for name, speed in by_name.items():
            results.append(
                Result(
                    "sample",
                    "W1",
                    "abs(l.x - r.x) <= 2048",
                    1 << 20,
                    batch,
                    name,
                    "ok",
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
            )
    results.append(
        Result("sample", "W1", "p", 1 << 20, 8192, "numpy", "not run", "one push takes 9 s")
    )
    return results


def test_results_come_back_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "sample.csv"
    write(path, sample())
    assert read(path) == sample()
    write(path, sample()[:1])
    assert read(path) == sample()[:1], "a run replaces the file, it does not append"


def test_files_that_are_no_results_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Run `thetastream bench` first"):
        read(tmp_path / "absent.csv")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="is not a result file"):
        read(tmp_path / "other.csv")


def test_the_best_peer_is_never_thetastream() -> None:
    grouped = cells(sample())
    assert [best_peer(found, "thetastream").contestant for found in grouped.values()] == [  # type: ignore[union-attr]
        "btrees",
        "btrees",
    ]
    assert best_peer([], "thetastream") is None


def test_the_table_shows_wins_losses_gaps_and_the_machine() -> None:
    text = markdown(sample())
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
    monkeypatch.setattr(table, "SHOWN", [("W1", 1 << 20, 8192)])
    lines = summary(sample()).splitlines()
    row = "| one band | 1,048,576 | 8,192 | 0.60 | `btrees` | 0.80 | 0.75 × (slower) |"
    assert lines[2] == row
    assert "A Processor, 2026-01-01" in lines[-1]


@pytest.mark.parametrize(
    ("page", "made"), [("README.md", summary), ("docs/benchmarks.md", markdown)]
)
def test_tables_are_made_and_not_typed(page: str, made: Any) -> None:
    root = Path(__file__).resolve().parents[2]
    results = read(root / "benchmarks/results/foundation.csv")
    text = (root / page).read_text(encoding="utf-8")
    assert insert(text, made(results)) == text


def test_the_table_goes_between_its_marks_and_nowhere_else() -> None:
    page = f"# Title\n{BEGIN}\nold\n{END}\nrest\n"
    once = insert(page, "new")
    assert once == f"# Title\n{BEGIN}\nnew\n{END}\nrest\n"
    assert insert(once, "new") == once
    with pytest.raises(DataError, match="needs the marks"):
        insert(f"{END} {BEGIN}", "new")


def test_plots_are_drawn_as_pictures_with_every_contestant(tmp_path: Path) -> None:
    files = plot(sample(), tmp_path, "sample")
    assert [file.name for file in files] == ["sample-w1.png", "sample-w1.svg"]
    assert files[0].read_bytes().startswith(b"\x89PNG")
    drawing = files[1].read_text(encoding="utf-8")
    for name in ("thetastream", "btrees", "numpy"):
        assert f"<!-- {name} -->" in drawing
    plot(sample(), tmp_path, "again")
    assert (tmp_path / "again-w1.svg").read_text(encoding="utf-8") == drawing, "reproducible"


def test_the_command_measures_and_writes(tmp_path: Path) -> None:
    arguments = ["bench", "quick", "--workload", "W1", "--window", "256", "--batch", "64"]
    arguments += ["--contestant", "thetastream", "--contestant", "numpy", "--seconds", "0.05"]
    done = CliRunner().invoke(app, [*arguments, "--output", str(tmp_path), "--plots"])
    assert done.exit_code == 0, done.output
    assert "all answers verified" in done.output
    results = read(tmp_path / "quick.csv")
    assert [result.contestant for result in results] == ["thetastream", "numpy"]
    assert all(result.verified and result.window == 256 for result in results)
    assert results[0].ns_probe > 0
    assert results[0].index_bytes > 0
    assert (tmp_path / "quick-w1.png").exists()


def test_the_command_lists_what_there_is() -> None:
    done = CliRunner().invoke(app, ["bench", "--list"])
    assert done.exit_code == 0
    for word in ("foundation", "quick", "duckdb-bucket", "thetastream"):
        assert word in done.output
