"""The benchmark of keys: trials check their answers, and the table says what was reached."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from thetabench.cli.bench import main as bench
from thetabench.keys import course, report, trials
from thetabench.keys.course import KeyLine
from thetabench.keys.tables import named, tariffs
from thetabench.keys.trials import EXPERIMENTS
from thetastream.errors import DataError, OptionError

TINY = 0.0005  # of ten million rows


def test_the_keys_of_a_table_have_one_order() -> None:
    table = tariffs(3000).sort_by("place")
    for keys in (["low"], ["region", "day"]):
        order = [(name, "ascending") for name in keys]
        assert table.sort_by(order)["place"].equals(table["place"])
        assert table.select(keys).group_by(keys).aggregate([]).num_rows == 3000
    ends = table.select(["high", "low"]).to_pydict()
    assert all(a < b for a, b in zip(ends["high"], ends["low"][1:], strict=False))
    names = named(500)
    assert {len(name) for name in names["name"].to_pylist()} == {20}
    assert len(set(names["number"].to_pylist())) == 500


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_trial_measures_and_checks(tmp_path: Path, name: str) -> None:
    lines = list(course.measurements([name], TINY, 1))
    assert len(lines) >= 2
    assert lines[0].ratio == 1.0
    assert all(line.seconds > 0 and line.experiment == name for line in lines)
    if EXPERIMENTS[name].unit == "blocks":
        assert all(line.blocks >= line.operations == 300 for line in lines)
    course.write(tmp_path / "keys.csv", lines)
    assert course.read(tmp_path / "keys.csv") == lines


def test_look_ups_by_several_columns_read_no_more_blocks() -> None:
    lines = list(course.measurements(["look-up", "interval"], 0.005, 1))
    assert [line.reached for line in lines] == [True] * 4


def test_a_wrong_answer_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "tariffs", lambda rows: tariffs(rows).slice(1))
    with pytest.raises(DataError, match="all rows: expected True, got False"):
        EXPERIMENTS["build"].run(tmp_path, TINY, 1)


def line(contestant: str, ratio: float, **more: object) -> KeyLine:
    facts = {"experiment": "build", "rows": 10, "operations": 10, "seconds": 2.0, "blocks": 0}
    facts |= {"must": 1.3, "reached": ratio <= 1.3, "scale": 0.1, "repeat": 3, "load": 1.5}
    return KeyLine(contestant=contestant, ratio=ratio, **(facts | more))


def test_the_table_says_what_was_missed(tmp_path: Path) -> None:
    file, page = tmp_path / "keys.csv", tmp_path / "page.md"
    lines = [line("number", 1.0), line("region", 1.25), line("other", 1.5)]
    course.write(file, lines)
    page.write_text(f"a\n{report.BEGIN}\nold\n{report.END}\nb", encoding="utf-8")
    report.main(file, page)
    text = page.read_text(encoding="utf-8")
    assert "| build | 10 | number | 2.000 s |  |  |  |" in text
    assert "|  |  | region | 2.000 s | 1.25 × | at most 1.3 | reached |" in text
    assert "|  |  | other | 2.000 s | 1.50 × | at most 1.3 | **missed** |" in text
    assert "Scale 0.1" in text
    assert "old" not in text
    with pytest.raises(DataError, match="no page"):
        report.main(file, tmp_path / "none.md")


def test_other_trials_keep_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "keys.csv"
    first = [line("number", 1.0), line("region", 1.2)]
    course.write(file, first)
    update = [replace(own, experiment="update") for own in first]
    course.write(file, update)
    assert course.read(file) == [*update, *first]  # in the order of the trials
    course.write(file, first[:1])
    assert course.read(file) == [*update, first[0]]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--scale", str(TINY), "--figure", "update", "--output", str(tmp_path)]
    bench(["keys", *options])
    assert "update in one transaction" in capsys.readouterr().out
    assert len(course.read(tmp_path / "keys.csv")) == 3
    with pytest.raises(OptionError, match="Did you mean 'update'"):
        bench(["keys", "--figure", "updat", "--output", str(tmp_path)])
    bench(["--list"])
    assert "--figure interval-build" in capsys.readouterr().out
