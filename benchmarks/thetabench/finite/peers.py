"""The contestants: each one prepares a workload, and returns a function that joins it.

Preparing is not timed: frames of a library, tables of a database. What is timed starts from these
and ends with all columns of all matches, in the library's own kind of frame. ``rows`` of an answer
are the row numbers of both sides, for its digest.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa

from thetabench.finite.workloads import Workload

Join = Callable[[], Any]
Prepare = Callable[[Workload, pa.Table, pa.Table, int], Join]

_BATCH = 8192  # rows


def thetastream(work: Workload, left: pa.Table, right: pa.Table, threads: int) -> Join:
    """``ts.join`` on Arrow tables. Kernels are loaded now, as others are when they are imported."""
    import thetastream as ts

    ts.join(left[:1], right[:1], work.sql, threads=threads)
    return lambda: ts.join(left, right, work.sql, threads=threads)


def duckdb(work: Workload, left: pa.Table, right: pa.Table, threads: int) -> Join:
    """SQL over DuckDB's own tables; the answer is an Arrow table."""
    import duckdb

    engine = duckdb.connect(config={"threads": threads})
    for name, table in (("l", left), ("r", right)):
        engine.register("given", table)
        engine.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
        engine.unregister("given")
    condition = _bounds(work)
    return lambda: engine.sql(f"SELECT * FROM l JOIN r ON {condition}").to_arrow_table()


def datafusion(work: Workload, left: pa.Table, right: pa.Table, threads: int) -> Join:
    """SQL over tables in memory; the answer is Arrow batches."""
    import datafusion

    context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(threads))
    for name, table in (("l", left), ("r", right)):
        context.register_record_batches(name, _partitions(table, threads))
    condition = _bounds(work)
    query = f"SELECT * FROM l JOIN r ON {condition}"
    return lambda: pa.Table.from_batches(context.sql(query).collect())


def _partitions(table: pa.Table, count: int) -> list[list[pa.RecordBatch]]:
    """A part per thread, in batches of the size that DataFusion works with."""
    rows = -(-table.num_rows // count)
    parts = (table.slice(at, rows) for at in range(0, table.num_rows, rows))
    return [part.to_batches(max_chunksize=_BATCH) for part in parts]


def polars(work: Workload, left: pa.Table, right: pa.Table, threads: int) -> Join:
    """``join_where``, or an equi-join that is filtered, in memory."""
    query = _lazy(work, left, right)
    return lambda: query.collect(engine="in-memory")


def polars_streaming(work: Workload, left: pa.Table, right: pa.Table, threads: int) -> Join:
    """The same in the streaming engine."""
    query = _lazy(work, left, right)
    return lambda: query.collect(engine="streaming")


def ncls(work: Workload, left: pa.Table, right: pa.Table, threads: int) -> Join:
    """Nested containment lists over the right intervals, and a gather with NumPy."""
    lists = import_module("ncls").NCLS
    if not work.intervals:
        raise NotImplementedError("only overlaps of intervals")
    sides = [{n: t[n].to_numpy() for n in t.column_names} for t in (left, right)]
    ends = [_ends(columns) for columns in sides]

    def join() -> dict[str, Any]:
        starts, stops = ends[1]
        index = lists(starts, stops, sides[1]["b"])
        found = index.all_overlaps_both(*ends[0], sides[0]["a"])
        return {n: c[at] for at, side in zip(found, sides, strict=True) for n, c in side.items()}

    return join


def polars_bio(work: Workload, left: pa.Table, right: pa.Table, threads: int) -> Join:
    """``overlap`` over frames with a chromosome column; coordinates are 1-based and closed."""
    import polars as pl

    pb = import_module("polars_bio")
    if not work.intervals:
        raise NotImplementedError("only overlaps of intervals")
    pb.set_option("datafusion.execution.target_partitions", str(threads))
    frames = []
    for table in (left, right):
        columns = {n: table[n].to_numpy() for n in table.column_names}
        start, stop = _ends(columns)
        made = pl.from_arrow(table)
        assert isinstance(made, pl.DataFrame)
        frames.append(
            made.with_columns(chrom=pl.lit("1"), start=pl.Series(start + 1), end=pl.Series(stop))
        )
    names = {f"cols{side}": ["chrom", "start", "end"] for side in (1, 2)}
    return lambda: pb.overlap(*frames, **names, suffixes=("", "_r"), output_type="polars.DataFrame")


def pyjanitor(
    work: Workload, left: pa.Table, right: pa.Table, threads: int, algorithm: str = "default"
) -> Join:
    """``conditional_join`` of pandas frames."""
    import_module("janitor")  # which adds the method to pandas frames
    frames = [table.to_pandas() for table in (left, right)]
    terms = [(a, b, op) for a, op, b in work.terms]
    if work.equal is not None:
        terms.append((*work.equal, "=="))
    if work.band is not None:
        one, other, width = work.band
        frames[1] = frames[1].assign(_low=frames[1][other] - width, _high=frames[1][other] + width)
        terms += [(one, "_low", ">="), (one, "_high", "<=")]
    return lambda: frames[0].conditional_join(frames[1], *terms, join_algorithm=algorithm)


def pyjanitor_regions(work: Workload, left: pa.Table, right: pa.Table, threads: int) -> Join:
    """The same with its other algorithm for several inequalities; each workload has them."""
    return pyjanitor(work, left, right, threads, "regions")


CONTESTANTS: dict[str, tuple[str, Prepare]] = {
    "thetastream": ("thetastream", thetastream),
    "duckdb": ("duckdb", duckdb),
    "polars": ("polars", polars),
    "polars-streaming": ("polars", polars_streaming),
    "polars-bio": ("polars-bio", polars_bio),
    "ncls": ("ncls", ncls),
    "pyjanitor": ("pyjanitor", pyjanitor),
    "pyjanitor-regions": ("pyjanitor", pyjanitor_regions),
    "datafusion": ("datafusion", datafusion),
}
"""By name: the distribution that must be installed, and how it runs."""


def numbers(answer: Any) -> tuple[Any, Any]:
    """The row numbers of an answer, as two arrays."""
    if isinstance(answer, dict):
        return answer["a"], answer["b"]
    names = list(getattr(answer, "column_names", None) or answer.columns)
    columns = (answer[next(n for n in names if n in (name, f"{name}_r"))] for name in "ab")
    left, right = (np.asarray(column) for column in columns)
    return left, right


def _bounds(work: Workload) -> str:
    """The condition in SQL; a band as two inequalities, which databases can index."""
    parts = [f"l.{a} {op} r.{b}" for a, op, b in work.terms]
    if work.equal is not None:
        parts.append("l.{} = r.{}".format(*work.equal))
    if work.band is not None:
        one, other, width = work.band
        parts += [f"l.{one} >= r.{other} - {width}", f"l.{one} <= r.{other} + {width}"]
    return " AND ".join(parts)


def _lazy(work: Workload, left: pa.Table, right: pa.Table) -> Any:
    import polars as pl

    frames = [pl.DataFrame(pl.from_arrow(table)).lazy() for table in (left, right)]
    compare = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
    terms = [getattr(pl.col(a), compare[op])(pl.col(b)) for a, op, b in work.terms]
    if work.band is not None:
        one, other, width = work.band
        low, high = pl.col(other) - width, pl.col(other) + width
        if work.equal is not None:
            joined = frames[0].join(
                frames[1], left_on=work.equal[0], right_on=work.equal[1], coalesce=False
            )
            return joined.filter(pl.col(one).is_between(low, high))
        terms += [pl.col(one) >= low, pl.col(one) <= high]
    return frames[0].join_where(frames[1], *terms)


def _ends(columns: dict[str, Any]) -> tuple[Any, Any]:
    """Starts and ends, exclusive; a point ends one after it starts."""
    names = [name for name in columns if name not in "ab"]
    if len(names) == 1:
        return columns[names[0]], columns[names[0]] + 1
    return columns[names[0]], columns[names[1]]
