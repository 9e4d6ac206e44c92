"""The trials: each runs some contestants on the same rows, one after the other, in rounds.

Every answer is checked, outside the measured time. Times go from the call to its return; the first
round, which may compile, is left out.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import thetastream as ts
from thetabench.keys.tables import GAP, named, tariffs

Key = Any
_ASKED = 300
_PUSH = 50_000


@dataclass(frozen=True)
class Measured:
    """What a contestant took: seconds, or blocks where reads are counted."""

    contestant: str
    rows: int
    operations: int
    """Rows that were asked for, updated, built or joined."""
    seconds: float
    blocks: int = 0


@dataclass(frozen=True)
class Experiment:
    """A trial, and what must hold of every contestant beside the first one."""

    about: str
    unit: str
    must: float
    run: Callable[[Path, float, int], list[Measured]]
    value: Callable[[Measured], float]
    more: bool = False
    """Whether the ratio must be at least ``must``, and not at most."""

    def ratio(self, measured: Measured, base: Measured) -> float:
        """The value of a contestant over that of the first one."""
        return self.value(measured) / self.value(base)

    def reached(self, ratio: float) -> bool:
        """Whether a ratio is what it must be."""
        return ratio >= self.must if self.more else ratio <= self.must


def _size(rows: int, scale: float) -> int:
    return max(2_000, round(rows * scale))


def _expect(found: object, wanted: object, what: str) -> None:
    if found != wanted:
        raise ts.errors.DataError(f"{what}: expected {wanted}, got {found}.")


def _check_rows(held: pa.Table, rows: int, name: str) -> None:
    """All rows are there, and those of a region follow one another."""
    place = np.asarray(held["place"])
    _expect(np.array_equal(np.sort(place), np.arange(rows)), True, f"{name}: all rows")
    region = np.asarray(pc.rank(held["region"], tiebreaker="dense"))
    begins = int(np.count_nonzero(np.diff(region))) + 1
    _expect(begins, len(np.unique(region)), f"{name}: regions")


def _rounds(contestants: dict[str, Callable[[], float]], repeat: int) -> list[tuple[str, float]]:
    """The median seconds of each contestant; they take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(repeat + 1):
        for name, run in contestants.items():
            seconds[name].append(run())
    return [(name, statistics.median(own[1:])) for name, own in seconds.items()]


# --- Look-ups -------------------------------------------------------------------------------------


def _looked_up(folder: Path, scale: float, keys: dict[str, tuple[Key, str]]) -> list[Measured]:
    """Blocks that single look-ups read, without a cache; each finds the row that it asks for."""
    rows = _size(10_000_000, scale)
    table = tariffs(rows)
    asked = table.take(pa.array(np.random.default_rng(3).choice(rows, _ASKED, replace=False)))
    moved = {name: pc.add(asked[name], GAP // 2) for name in ("day", "low")}
    within = pa.table({**moved, "region": asked["region"], "asked": asked["place"]})
    exact = asked.rename_columns({"place": "asked"})
    measured = []
    for name, (key, on) in keys.items():
        path = folder / "look-up.rel"
        stream = within if "BETWEEN" in on else exact
        with (
            ts.Relation.build(path, table, key, replace=True) as relation,
            ts.RelationJoin(relation, on, "8 MB", cache="none", plan="single") as join,
        ):
            found: list[pa.RecordBatch] = []
            started = perf_counter()
            for at in range(_ASKED):
                found += [*join.push(stream.slice(at, 1)), *join.flush()]
            seconds = perf_counter() - started
            places = [(b["asked"].to_pylist(), b["place"].to_pylist()) for b in found]
            right = sorted(p for a, b in places for p in zip(a, b, strict=True))
            wanted = sorted((p, p) for p in asked["place"].to_pylist())
            _expect(right, wanted, f"rows found by {name}")
            measured.append(Measured(name, rows, _ASKED, seconds, join.metrics().blocks_read))
    return measured


def points(folder: Path, scale: float, repeat: int) -> list[Measured]:
    """Equality: of one number, and of a region and a day."""
    keys = {
        "number": ("place", "l.asked = r.place"),
        "region, (day)": (("region", ("day",)), "l.region = r.region AND l.day = r.day"),
    }
    return _looked_up(folder, scale, keys)


def intervals(folder: Path, scale: float, repeat: int) -> list[Measured]:
    """A point in an interval: on one axis, and within a region."""
    inside = "l.region = r.region AND l.day BETWEEN r.day AND r.until"
    keys = {
        "(low, high)": (("low", "high"), "l.low BETWEEN r.low AND r.high"),
        "region, (day, until)": (("region", ("day", "until")), inside),
    }
    return _looked_up(folder, scale, keys)


# --- Updates --------------------------------------------------------------------------------------


def updates(folder: Path, scale: float, repeat: int) -> list[Measured]:
    """10,000 rows of 10 million get another price: by the key, and by a unique key."""
    rows = _size(10_000_000, scale)
    changed = rows // 1_000
    table = tariffs(rows)
    chosen = np.sort(np.random.default_rng(4).choice(rows, changed, replace=False))
    some = table.take(pa.array(chosen)).combine_chunks()
    kinds: dict[str, tuple[Key, Any]] = {
        "by key": ("place", None),
        "by unique key": ("place", ("region", "place")),
        "by unique key, region in front": (("region", ("day",)), ("region", "day")),
    }
    relations = {
        name: ts.Relation.build(folder / f"{at}.rel", table, key, unique=unique)
        for at, (name, (key, unique)) in enumerate(kinds.items())
    }
    prices = dict.fromkeys(relations, 0.0)

    def change(name: str) -> float:
        prices[name] += 1.0
        price = pa.array(np.full(changed, prices[name]))
        rows = some.set_column(some.schema.get_field_index("price"), "price", price)
        started = perf_counter()
        counts = relations[name].update(rows)
        seconds = perf_counter() - started
        _expect((counts.replaced, counts.inserted, counts.removed), (changed, 0, 0), name)
        return seconds

    found = _rounds({name: partial(change, name) for name in relations}, repeat)
    wanted = np.zeros(rows)
    wanted[np.asarray(some["place"])] = repeat + 1.0
    for name, relation in relations.items():
        with relation:
            relation.check()
            held = relation.to_table(["region", "place", "price"])
        _check_rows(held, rows, name)
        given = held.sort_by("place")["price"]
        _expect(np.array_equal(given, wanted), True, f"{name}: prices")
    return [Measured(name, rows, changed, seconds) for name, seconds in found]


# --- Builds ---------------------------------------------------------------------------------------


def _built(folder: Path, scale: float, repeat: int, keys: dict[str, Key]) -> list[Measured]:
    rows = _size(10_000_000, scale)
    memory = max(1 << 22, round((256 << 20) * scale))  # so that rows are sorted on disk
    table = tariffs(rows)

    def build(name: str) -> float:
        started = perf_counter()
        relation = ts.Relation.build(
            folder / "build.rel", table, keys[name], replace=True, memory=memory
        )
        seconds = perf_counter() - started
        with relation:
            relation.check()  # rows are in the order of their keys
            held = relation.to_table(["region", "place"])
        _check_rows(held, rows, name)
        return seconds

    found = _rounds({name: partial(build, name) for name in keys}, repeat)
    return [Measured(name, rows, rows, seconds) for name, seconds in found]


def builds(folder: Path, scale: float, repeat: int) -> list[Measured]:
    """A build by one number, and by a region and a day."""
    return _built(folder, scale, repeat, {"number": "place", "region, (day)": ("region", ("day",))})


def interval_builds(folder: Path, scale: float, repeat: int) -> list[Measured]:
    """A build of intervals, on one axis and within a region."""
    keys = {"(low, high)": ("low", "high"), "region, (day, until)": ("region", ("day", "until"))}
    return _built(folder, scale, repeat, keys)


# --- Joins ----------------------------------------------------------------------------------------


def _joined(folder: Path, scale: float, repeat: int, columns: list[str] | None) -> list[Measured]:
    """A stream joined by equality with a relation that is in memory after the first round."""
    rows = _size(5_000_000, scale)
    table = named(rows)
    drawn = np.random.default_rng(5).integers(0, rows, rows)
    stream = table.take(pa.array(drawn)).rename_columns({"place": "asked"}).combine_chunks()
    joins = {}
    for name, column in (("int64", "number"), ("string of 20 bytes", "name")):
        relation = ts.Relation.build(folder / f"{column}.rel", table, column)
        joins[name] = ts.RelationJoin(
            relation,
            f"l.{column} = r.{column}",
            memory=3 * relation.nbytes + (64 << 20),
            columns=columns,
        )
    streams = {"int64": stream.drop(["name"]), "string of 20 bytes": stream.drop(["number"])}

    def feed(name: str) -> float:
        join, own = joins[name], streams[name]
        found: list[pa.RecordBatch] = []
        started = perf_counter()
        for start in range(0, rows, _PUSH):
            found += join.push(own.slice(start, _PUSH))
        found += join.flush()
        seconds = perf_counter() - started
        answer = pa.Table.from_batches(found, schema=join.schema)
        _expect(answer.num_rows, rows, f"{name}: rows")
        _expect(answer["asked"].equals(answer["place"]), True, f"{name}: partners")
        _expect(pc.sum(answer["asked"]).as_py(), int(drawn.sum()), f"{name}: sum of the rows")
        return seconds

    found = _rounds({name: partial(feed, name) for name in joins}, repeat)
    for join in joins.values():
        join.close()
    return [Measured(name, rows, rows, seconds) for name, seconds in found]


def strings(folder: Path, scale: float, repeat: int) -> list[Measured]:
    """Whole rows are returned."""
    return _joined(folder, scale, repeat, None)


def few_columns(folder: Path, scale: float, repeat: int) -> list[Measured]:
    """Two columns of numbers are returned."""
    return _joined(folder, scale, repeat, ["asked", "place"])


def _rate(measured: Measured) -> float:
    return measured.operations / measured.seconds


EXPERIMENTS = {
    "look-up": Experiment(
        "blocks read by an equality look-up", "blocks", 1.0, points, lambda m: float(m.blocks)
    ),
    "interval": Experiment(
        "blocks read by a point-in-interval look-up",
        "blocks",
        1.0,
        intervals,
        lambda m: float(m.blocks),
    ),
    "update": Experiment("update in one transaction", "s", 2.0, updates, lambda m: m.seconds),
    "build": Experiment("build", "s", 1.3, builds, lambda m: m.seconds),
    "interval-build": Experiment(
        "build of intervals", "s", 1.3, interval_builds, lambda m: m.seconds
    ),
    "strings": Experiment(
        "join by equality, all in memory, whole rows", "rows/s", 0.5, strings, _rate, more=True
    ),
    "strings-two": Experiment(
        "the same, two columns of numbers", "rows/s", 0.5, few_columns, _rate, more=True
    ),
}
