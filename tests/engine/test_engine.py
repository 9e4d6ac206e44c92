"""The way of a push: how often it crosses from one module of the package to another."""

from __future__ import annotations

import sys
from collections import Counter
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa

import thetastream as ts

MOST = 120


def crossings(run: Any) -> Counter[tuple[str, str, str]]:
    """Calls from one module of the package to another, generators that are resumed included."""
    calls: Counter[tuple[str, str, str]] = Counter()

    def profile(frame: FrameType, event: str, _: Any) -> None:
        callee = str(frame.f_globals.get("__name__", ""))
        if event != "call" or not callee.startswith("thetastream") or frame.f_back is None:
            return
        caller = str(frame.f_back.f_globals.get("__name__", ""))
        if caller.startswith("thetastream") and caller != callee:
            calls[caller, callee, frame.f_code.co_name] += 1

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(before)
    return calls


def test_a_warm_push_goes_straight() -> None:
    random = np.random.default_rng(1)

    def rows() -> pa.RecordBatch:
        return pa.record_batch(
            {"x": random.integers(0, 1 << 20, 4096), "p": random.integers(0, 9, 4096)}
        )

    join = ts.StreamJoin("abs(l.x - r.x) <= 5", window=ts.CountWindow(1 << 14))
    for _ in range(25):  # and no look at the plan at the next one
        list(join.push(left=rows(), right=rows()))
    left, right = rows(), rows()
    calls = crossings(lambda: list(join.push(left=left, right=right)))
    assert join.metrics().matches > 0
    assert calls.total() <= MOST, calls.most_common()
