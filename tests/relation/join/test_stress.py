"""Any order of calls: offers, steps, updates, flushes; ``check()`` after each of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from thetastream import RelationJoin
from thetastream.relation.disk.clock import PROFILES, SimulatedClock
from thetastream.relation.store import Relation

from ..relation_cases import built, padded, rows_of, truth

SETTINGS: list[dict[str, Any]] = [
    {},
    {"input_rows": 3, "stream_rows": 8, "max_scan": 2},
    {"cache": "lru", "input_rows": 5, "stream_rows": 20},
    {"cache": "none", "stream_rows": 6, "input_rows": 1},
    {"split": 0.3, "input_rows": 4, "stream_rows": 30, "plan": "greedy"},
    {"deadline": "1 s", "input_rows": 7},
]


HOW = ["inner", "left", "semi", "anti"]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("which", range(len(SETTINGS)))
def test_any_order_of_calls(tmp_path: Path, which: int, seed: int) -> None:
    play(tmp_path, SETTINGS[which], HOW[(which + seed) % 4], seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 16))
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("which", range(len(SETTINGS)))
def test_any_order_of_calls_at_length(tmp_path: Path, which: int, how: str, seed: int) -> None:
    play(tmp_path, SETTINGS[which], how, seed)


def play(tmp_path: Path, settings: dict[str, Any], how: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    on = ["l.x = r.k", "abs(l.x - r.k) <= 2", "l.x < r.k AND l.n % 3 = 0", "l.x != r.k"][seed % 4]
    table = padded({"k": rng.integers(0, 60, 80).tolist()})
    built(tmp_path / "r.rel", table).close()
    clock = SimulatedClock(PROFILES["ssd"])
    relation = Relation.open(tmp_path / "r.rel", device="ssd", clock=clock)
    join = RelationJoin(relation, on, "300 kB", how=how, clock=clock, batch_rows=20, **settings)
    found: list[pa.RecordBatch] = []
    expected: Counter[Any] = Counter()
    number = 0
    for _ in range(60):
        call = rng.choice(["offer", "step", "push", "wait", "update", "flush"], p=_ODDS)
        if call in ("offer", "push"):
            count = int(rng.integers(1, 12))
            keys = pa.array(rng.integers(-3, 65, count), mask=rng.random(count) < 0.1)
            rows = pa.table({"x": keys, "n": range(number, number + count)})
            number += count
            if call == "push":
                found += join.push(rows)
            else:
                while not join.offer(rows):
                    found += join.step() or []
            expected += truth(rows, table, on, how)
        elif call == "step":
            found += join.step() or []
        elif call == "wait":
            clock.wait_until(clock.now() + float(rng.random()))
            found += join.poll()
        elif call == "update":  # rows that wait may see either state: so none may wait
            found += join.flush()
            fresh = padded({"k": rng.integers(0, 60, 4).tolist()})
            relation.insert(fresh)
            table = pa.concat_tables([table, fresh])
        else:
            found += join.flush()
            assert join.metrics().waiting_rows == 0
        join.check()
    found += join.flush()
    join.check()
    assert rows_of(found) == expected
    counts = join.metrics()
    assert counts.rows == number
    assert counts.output_rows == sum(batch.num_rows for batch in found)
    if "deadline" in settings:
        assert counts.deadlines_met + counts.deadlines_missed == number


_ODDS = [0.25, 0.35, 0.15, 0.1, 0.05, 0.1]
