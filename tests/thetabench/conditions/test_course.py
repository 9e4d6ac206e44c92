"""The benchmark of conditions: contestants find the same pairs; the table shows losses."""

from __future__ import annotations

from pathlib import Path

import pytest

from thetabench.conditions import course, report
from thetabench.conditions.contests import CONTESTS, Contest
from thetabench.digest import Digest, VerificationError


@pytest.mark.parametrize("name", CONTESTS)
def test_contestants_agree(name: str) -> None:
    lines = list(course.measurements([name], 0.002, 1, str))
    assert len(lines) >= 2
    assert len({(line.pairs, line.checksum) for line in lines}) == 1
    assert lines[0].pairs > 0
    assert all(line.seconds > 0 for line in lines)


def test_other_pairs_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = {"a": lambda: (1.0, Digest(3, 5)), "b": lambda: (1.0, Digest(3, 6))}
    monkeypatch.setitem(CONTESTS, "lie", Contest("lie", "a lie", lambda scale: runs))
    with pytest.raises(VerificationError, match="b found 3 pairs in lie with another digest"):
        list(course.measurements(["lie"], 1.0, 1, str))


def test_the_table_compares_with_the_best(tmp_path: Path) -> None:
    def line(who: str, seconds: float, share: float = 1.0) -> course.ConditionLine:
        facts = (seconds, seconds, seconds, 3, 7, "11", 1.0, share)
        return course.ConditionLine("haversine", who, *facts)

    lines = [line("thetastream", 2.0), line("duckdb, cells", 1.0), line("duckdb, ranges", 30.0)]
    assert report.table(lines)[2:] == [
        "| places within 5 km, 1 M × 0.1 M, beside DuckDB | 7 | 2.000 | `duckdb, cells` | 1.000 "
        "| **0.50 ×** |",
        "|  |  |  | `duckdb, ranges` | 30.000 | 15.00 × |",
    ]
    file, page = tmp_path / "conditions.csv", tmp_path / "page.md"
    course.write(file, lines)
    assert course.read(file) == lines
    assert "busy" not in report.markdown(file)
    course.write(file, [*lines[:2], line("duckdb, ranges", 30.0, 0.5)])
    assert "busy with other work" in report.markdown(file)
    page.write_text(f"a\n{report.BEGIN}\nold\n{report.END}\nb", encoding="utf-8")
    report.main(file, page)
    assert "**0.50 ×**" in page.read_text(encoding="utf-8")
