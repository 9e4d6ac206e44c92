"""The way of a push through the modules, and what the parts of a join know of each other."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import thetastream
from thetastream import RelationJoin
from thetastream.relation.disk.clock import PROFILES, SimulatedClock
from thetastream.relation.store import Relation

from ..relation_cases import built, padded

PACKAGE = Path(thetastream.__file__).parent
PARTS = [
    *("answer", "arrivals", "cache", "joining", "leaf_index", "matching", "memory", "metrics"),
    *("online", "pace", "waiting", "workspace"),
]


@pytest.mark.parametrize("name", PARTS)
def test_a_part_knows_neither_the_engine_nor_the_join(name: str) -> None:
    tree = ast.parse((PACKAGE / f"relation/join/{name}.py").read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not imported & {f"thetastream.relation.join.{m}" for m in ("engine", "join")}


def stream(seed: int) -> pa.Table:
    return pa.table({"x": np.random.default_rng(seed).integers(0, 400, 256), "n": range(256)})


@pytest.mark.parametrize("on", ["l.x = r.k", "abs(l.x - r.k) <= 1"])
def test_a_push_that_the_cache_answers_goes_straight(tmp_path: Path, on: str) -> None:
    join = warm(tmp_path, on)
    calls = counted(lambda: list(join.push(stream(9))))
    assert join.metrics().misses == join.metrics().hits / 4
    assert sum(calls.values()) <= 100, calls


def warm(folder: Path, on: str) -> RelationJoin:
    """A join whose relation is cached whole."""
    built(folder / "r.rel", padded({"k": list(range(400))})).close()
    clock = SimulatedClock(PROFILES["ssd"])
    relation = Relation.open(folder / "r.rel", device="ssd", clock=clock)
    join = RelationJoin(relation, on, "4 MB", clock=clock, input_rows=256)
    for seed in range(4):
        list(join.push(stream(9)))
        if not seed:
            list(join.flush())
    return join


def counted(work: Any) -> Counter[tuple[str, str]]:
    """Calls from one module of the package to another."""
    found: Counter[tuple[str, str]] = Counter()

    def module(frame: FrameType | None) -> str:
        while frame is not None and not frame.f_code.co_filename.startswith(str(PACKAGE)):
            frame = frame.f_back
        return "" if frame is None else frame.f_code.co_filename

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            caller, called = module(frame.f_back), frame.f_code.co_filename
            if caller != called:
                found[caller, called] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return found
