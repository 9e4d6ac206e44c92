"""What the operator must reach, what it aims at, and what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from thetabench.score import Score
from thetabench.spark.plan import BLOCKS, FILES, HOME, KEPT, LOST, REJOIN, STORES
from thetabench.spark.result import SparkResult


def scores(results: Sequence[SparkResult]) -> list[Score]:
    """Compare what was measured; a part that was not has no lines."""
    ran = [result for result in results if result.ran]
    found = []
    for batch in dict.fromkeys(result.batch for result in results if result.part == "join"):
        cell = [result for result in ran if result.batch == batch and result.workload == "W1"]
        home = _one(cell, "join", HOME)
        files = _one(cell, "join", FILES)
        found += _ratios(results, cell, home, batch, "")
        if files is not None:
            found += _ratios(results, cell, files, batch, ", runs in files")
        if home is not None:
            found.append(_state(home))
    found += _w2(results, ran)
    found += _restart(results, ran)
    return found


def _ratios(
    results: Sequence[SparkResult],
    cell: Sequence[SparkResult],
    home: SparkResult | None,
    batch: int,
    note: str,
) -> list[Score]:
    where = f"micro-batches of {batch:,}{note}"
    found = []
    if _asked(results, "bucketed"):
        best = max(
            (r for r in cell if r.contestant in STORES), key=lambda r: r.tuples_per_s, default=None
        )
        remark = best.contestant if best else ""
        ratio = _ratio(home, best)
        found.append(Score(f"against hand-made buckets, {where}", ratio, "×", 10, 25, True, remark))
    if _asked(results, "empty"):
        ratio = _ratio(home, _one(cell, "empty", "empty"))
        found.append(Score(f"against an empty joiner, {where}", ratio, "", 0.6, 0.9))
        ratio = _ratio(home, _one(cell, "empty", "empty-double"))
        found.append(Score(f"… that returns as many rows, {where}", ratio, ""))
    return found


def _state(home: SparkResult) -> Score:
    ratio = home.written_bytes / home.packed_bytes
    remark = (
        f"{home.written_bytes:.1f} of {home.packed_bytes:.1f} bytes per row; "
        f"{home.store_bytes:.1f} in the checkpoint's files"
    )
    measure = f"state bytes written, micro-batches of {home.batch:,}"
    return Score(measure, ratio, "× packed", 3, 1.5, False, remark)


def _w2(results: Sequence[SparkResult], ran: Sequence[SparkResult]) -> list[Score]:
    if not _asked(results, "w2"):
        return []
    found = []
    batches = dict.fromkeys(result.batch for result in results if result.part == "w2")
    for place, batch in enumerate(batches):
        cell = [result for result in ran if result.batch == batch]
        home = _one(cell, "w2", HOME)
        where = f"micro-batches of {batch:,}"
        ratio = _ratio(home, _one(cell, "w2", REJOIN))
        limits = (None, None) if place else (20, 50)
        found.append(Score(f"W2 against foreachBatch, {where}", ratio, "×", *limits))
        ratio = _ratio(home, _one(cell, "w2", BLOCKS))
        found.append(Score(f"… that joins by hand-made blocks, {where}", ratio, "×"))
    return found


def _restart(results: Sequence[SparkResult], ran: Sequence[SparkResult]) -> list[Score]:
    found = []
    for name, must, aim in ((LOST, 10.0, 3.0), (KEPT, None, None)):
        if not any(result.contestant == name for result in results):
            continue
        one = _one(ran, "restart", name)
        remark = ""
        if one is not None:
            remark = (
                f"first {one.first_s:.1f} s, normal {one.normal_s:.1f} s, a cold start without "
                f"state {one.cold_s:.1f} s; {one.stored_rows:,} rows stored"
            )
        value = one.slower_s if one is not None else None
        found.append(Score(f"{name}: slower by", value, "s", must, aim, False, remark))
    return found


def _asked(results: Iterable[SparkResult], part: str) -> bool:
    return any(result.part == part for result in results)


def _one(results: Iterable[SparkResult], part: str, contestant: str) -> SparkResult | None:
    """The first of a contestant; options after its name do not matter."""
    for result in results:
        if (result.part, result.contestant.partition(":")[0]) == (part, contestant):
            return result
    return None


def _ratio(one: SparkResult | None, other: SparkResult | None) -> float | None:
    if one is None or other is None or not one.ran or not other.ran:
        return None
    return one.tuples_per_s / other.tuples_per_s
