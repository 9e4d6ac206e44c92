"""Windows cut by time over small structures, and rows with times for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from thetastream.index import base
from thetastream.index.slotted.ptwi import Ptwi

from ...keys import HIGH, LOW, pairs_of

INNER: dict[str, dict[str, Any]] = {
    "sorted-runs": {"ratio": 2},
    "b+tree": {"slots": 2, "fanout": 3},
    "plain": {},
    "radix-trie": {},
    "bi-sort": {"subwindows": 2, "buffer": 2},
    "nested-loop": {},
    "per-term/css-tree": {"options": {"leaf": 1, "fanout": 2}},
}
every = pytest.mark.parametrize("inner", INNER)


def made(inner: str = "sorted-runs", columns: int = 1, **settings: Any) -> Ptwi:
    given = {"capacity": 4, "subwindows": 2, "options": INNER[inner], **settings}
    return Ptwi(columns=columns, inner=inner, **given)


def put(index: Ptwi, keys: list[int], first: int, times: list[int] | None = None) -> None:
    ids = np.arange(first, first + len(keys))
    given_times = None if times is None else np.array(times, np.int64)
    index.insert(np.array(keys, np.int64), ids, given_times)


def everything(index: base.Index) -> list[int]:
    """The ids of all rows."""
    chunks = index.probe(np.array([LOW]), np.array([HIGH]))
    return sorted(row for _, row in pairs_of(chunks))
