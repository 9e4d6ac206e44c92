"""Every script of ``examples/`` runs, and gives what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ..example_scripts import FOLDER, load

ANSWERS: dict[str, Any] = {
    "aggregate_after_join": [(0, 3), (1, 1)],
    "batch_backfill": [("door", None), ("fan", "belt"), ("pump", "oil")],
    "console": 3,
    "count_window": [(1, 2), (3, 2), (3, 4), (3, 6), (5, 8)],
    "data_centres": [(1, 2), (3, 1), (4, 4)],
    "enrich_spark": [477, 465],
    "files_to_files": [("A", "C"), ("B", "C")],
    "json_files": [("a", 1, "too warm")],
    "linear_road_spark": [427, 427],
    "outer_join_watermark": [(10.0, 10.2), (20.0, 20.1), (50.0, None)],
    "self_join": [(1, 2)],
}
EMBEDDED = ("enrich", "ip_ranges", "linear_road")
"""Without Spark: run by ``tests/test_examples.py``."""
LIVE = ("foreach_batch", "metrics_listener", "rate_source")


def test_every_example_is_run() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.py")) == sorted([*ANSWERS, *LIVE, *EMBEDDED])


@pytest.mark.parametrize("name", [*ANSWERS, *LIVE, *EMBEDDED])
def test_an_example_is_short_and_says_what_it_shows(name: str) -> None:
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    assert text.startswith('"""')
    assert len(text.splitlines()) <= 70


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.smoke] if name == "files_to_files" else [])
        for name in ANSWERS
    ],
)
def test_an_example_gives_what_it_says(name: str, spark: Any, tmp_path: Path) -> None:
    assert load(name).main(spark, tmp_path) == ANSWERS[name]


def test_rate_source(spark: Any, tmp_path: Path) -> None:
    pairs = load("rate_source").main(spark, tmp_path, rows=20)
    assert len(pairs) >= 20
    assert all(2 * x == 3 * y for x, y in pairs)


def test_foreach_batch(spark: Any, tmp_path: Path) -> None:
    assert list(load("foreach_batch").main(spark, tmp_path).values()) == [3, 2]
    assert spark.read.parquet(str(tmp_path / "table")).count() == 5


def test_metrics_listener(spark: Any, tmp_path: Path) -> None:
    found = load("metrics_listener").main(spark, tmp_path)
    assert sum(metrics.numInputRows for metrics in found) == 30
    assert sum(metrics.matches for metrics in found) == 18 + 74
    assert sum(metrics.numRowsDroppedByWatermark for metrics in found) == 10
    assert found[0].numRowsTotal >= 10
