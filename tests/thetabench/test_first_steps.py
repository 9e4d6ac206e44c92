"""The benchmark of first steps: its answers are compared, its lines and its page kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from thetabench.spark.first_steps import SIZES, kept, lines, shown

OURS, PEER = [(10.0, 4, 77), (12.0, 3, 5)], [(400.0, 4, 77)]


def test_answers_are_compared_as_far_as_both_went() -> None:
    found = lines("table", {"ours": OURS, "peer": PEER}, 50, 5)
    assert [(line["ms"], line["ratio"], line["batches"]) for line in found] == [
        (11, 1.0, 2),
        (400, 36.36, 1),
    ]
    assert found[0]["answer"] == "4 pairs, checksum 77"
    with pytest.raises(AssertionError, match="table: "):
        lines("table", {"ours": OURS, "peer": [(400.0, 4, 78)]}, 50, 5)
    with pytest.raises(AssertionError, match="no pair"):
        lines("table", {"ours": [(1.0, 0, 0)]}, 50, 5)


def test_lines_of_the_same_sizes_are_replaced(tmp_path: Path) -> None:
    file = tmp_path / "lines.csv"
    kept(file, lines("table", {"ours": OURS}, 50, 5))
    kept(file, lines("table", {"ours": OURS}, 60, 5))
    again = kept(file, lines("table", {"ours": [(99.0, 1, 1)]}, 50, 5))
    assert [(int(line["rows"]), int(line["ms"])) for line in again] == [(60, 11), (50, 99)]
    assert len(file.read_text().splitlines()) == 3


@pytest.mark.parametrize(("ms", "verdict"), [(400.0, "reached"), (100.0, "MISSED")])
def test_the_page_says_whether_the_goal_is_reached(ms: float, verdict: str) -> None:
    small = lines("table", {"ours": OURS, "peer": PEER}, 50, 5)
    assert "must" not in shown(small)
    whole = lines("table", {"ours": OURS, "peer": [(ms, 4, 77)]}, SIZES["rows"], SIZES["table"])
    assert shown([*small, *whole]).count(f"must 20 ×: {verdict}.") == 1
