"""Small feeds with many ties, and a nested loop in plain Python that answers them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from thetabench.feed import Feed
from thetastream.datasets.workloads import Workload
from thetastream.side import Side

Row = dict[str, float]

CONDITIONS: dict[str, tuple[str, Callable[[Row, Row], bool]]] = {
    "band": ("abs(l.x - r.x) <= 3", lambda a, b: abs(a["x"] - b["x"]) <= 3),
    "equal": ("abs(l.x - r.x) <= 0", lambda a, b: a["x"] == b["x"]),
    "opposite": ("l.a < r.a AND l.b > r.b", lambda a, b: a["a"] < b["a"] and a["b"] > b["b"]),
    "mirrored": ("l.a >= r.a AND l.b <= r.b", lambda a, b: a["a"] >= b["a"] and a["b"] <= b["b"]),
    "same": ("l.a < r.a AND l.b < r.b", lambda a, b: a["a"] < b["a"] and a["b"] < b["b"]),
    "plane": (
        "abs(l.x - r.x) <= 2 AND abs(l.y - r.y) <= 4",
        lambda a, b: abs(a["x"] - b["x"]) <= 2 and abs(a["y"] - b["y"]) <= 4,
    ),
    "band_and_less": (
        "abs(l.x - r.x) <= 4 AND l.a < r.a",
        lambda a, b: abs(a["x"] - b["x"]) <= 4 and a["a"] < b["a"],
    ),
}


def feed(
    condition: str,
    *,
    window: int = 40,
    batch: int = 16,
    rows: int = 180,
    filled: int | None = None,
    self_join: bool = False,
    seed: int = 0,
) -> Feed:
    rng = np.random.default_rng(seed)

    def table() -> pa.Table:
        a = rng.integers(-12, 12, rows) / 4
        return pa.table(
            {
                "x": rng.integers(-20, 40, rows),
                "y": rng.integers(-30, 30, rows),
                "a": a,
                "b": a + rng.integers(-2, 3, rows) / 4,
                "id": np.arange(rows, dtype=np.int64),
            }
        )

    text, _ = CONDITIONS[condition]
    right = None if self_join else table()
    return Feed.of(Workload("test", text, window, 1.0, self_join, table(), right), batch, filled)


def answers(feed: Feed, condition: str) -> list[Counter[tuple[int, int]]]:
    """The pairs of each push, by comparing every row with every stored row."""
    _, holds = CONDITIONS[condition]
    stored = {side: feed.table(side).slice(0, feed.filled).to_pylist() for side in Side}
    window = feed.query.window
    result = []
    for push in range(feed.pushes):
        side, found = feed.side(push), Counter[tuple[int, int]]()
        for row in feed.rows(push).to_pylist():
            if feed.query.self_join:
                for other in stored[side][-window:]:
                    if holds(row, other):
                        found[row["id"], other["id"]] += 1
                        found[other["id"], row["id"]] += 1
                stored[side].append(row)
                continue
            for other in stored[side.other][-window:]:
                left, right = (row, other) if side is Side.LEFT else (other, row)
                if holds(left, right):
                    found[left["id"], right["id"]] += 1
        if not feed.query.self_join:
            stored[side] += feed.rows(push).to_pylist()
        result.append(found)
    return result


def pairs(table: pa.Table) -> Counter[tuple[int, int]]:
    return Counter(zip(table["id"].to_pylist(), table["id_right"].to_pylist(), strict=True))
