"""Columns of the joins on Spark: which of them travel, what Spark computes, what is returned.

Both kinds of joins share this, and the names under which Spark shows them: functions that run in
Python are called ``thetastream: …``, metrics by the join's name, or by a digest of what it joins.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from thetastream.aggregate import Aggregate
from thetastream.boxes.binding import check_columns
from thetastream.condition.custom import Custom, PairFunction
from thetastream.condition.expression import Expression
from thetastream.condition.predicate import Predicate
from thetastream.errors import PredicateError
from thetastream.shape import OutputShape
from thetastream.side import How, Side
from thetastream.spark.expressions import Split
from thetastream.spark.frames import METRICS
from thetastream.spark.functions import ShippedFunction
from thetastream.window import Window

_used: Counter[str] = Counter()


def shipped(
    on: str | Predicate | Expression,
    residual: PairFunction | None,
    frames: dict[Side, DataFrame],
) -> Custom | None:
    """The residual function as it travels, over the columns of both DataFrames."""
    built = on.custom if isinstance(on, Predicate) else None
    function = residual if residual is not None or built is None else built.function
    if function is None:
        return None
    Custom.of(function)  # refuse what is not a function
    names = [frames[side].columns for side in Side]
    return Custom(ShippedFunction(function)).over(*names)


def answer_columns(
    left: Sequence[str],
    right: Sequence[str],
    how: How,
    suffix: str,
    columns: Sequence[str] | None,
    aggregates: Sequence[str] = (),
) -> tuple[tuple[str, Side, str], ...]:
    """The columns of the answer: name, side, and name there."""
    first, second = (pa.schema([(n, pa.null()) for n in names]) for names in (left, right))
    fields = [pa.field(name, pa.null()) for name in aggregates]
    shape = OutputShape.of(first, second, how, suffix, columns, fields=fields)
    return tuple((n, *place) for n, place in zip(shape.schema.names, shape.origin, strict=True))


def travelling(
    frames: dict[Side, DataFrame],
    parts: Split,
    window: Window,
    answer: tuple[tuple[str, Side, str], ...],
    aggregates: Sequence[Aggregate],
    self_join: bool,
    text: str,
    custom: Custom | None,
) -> dict[Side, DataFrame]:
    """Per side, the columns that travel: what the answer and the join read, nothing else."""
    predicate = parts.predicate(text)
    shown: dict[Side, DataFrame] = {}
    for side, frame in frames.items():
        roles = tuple(Side) if self_join else (side,)
        for role in roles:
            computed = [pa.field(name, pa.null()) for name in parts.computed[role]]
            known = [pa.field(name, pa.null()) for name in frame.columns]
            check_columns(predicate, window, role, pa.schema([*known, *computed]))
        if aggregates and side is Side.RIGHT:
            read = {one.column for one in aggregates if one.column is not None}
        else:
            read = {column for _, s, column in answer if s in roles}
        read |= {name for role in roles for name in predicate.columns(role)}
        read |= {name for role in roles for name in window.columns(role).values()}
        if custom is not None:
            read |= {name for role in roles for name in custom.names[role.position]}
        shown[side] = selected(frame, read, roles, parts, text)
    return shown


def selected(
    frame: DataFrame, read: Collection[str], roles: Sequence[Side], parts: Split, text: str
) -> DataFrame:
    """The columns that are read, and the expressions that Spark computes for these roles."""
    names = [name.replace("`", "``") for name in frame.columns if name in read]
    extra = [
        _computed(frame, name, sql, role, text)
        for role in roles
        for name, sql in parts.computed[role].items()
    ]
    return frame.select(*(F.col(f"`{name}`") for name in names), *extra)


def _computed(frame: DataFrame, name: str, sql: str, side: Side, text: str) -> Any:
    """A side expression as a column; PredicateError with Spark's reason if it is refused.

    It is tried as a condition, where Spark refuses what is not a function of one row: aggregates,
    window functions and ``explode``.
    """
    column = F.expr(sql)
    try:
        tried = frame.where(column.isNull())
        _ = tried.select(F.lit(1)).schema  # Connect knows the schema of a filter without asking
    except PySparkException as error:
        reason = str(error).split("\n")[0]
        raise PredicateError(
            f"Spark cannot compute {sql} on the {side.value} side: {reason}", text
        ) from None
    if not _is_deterministic(tried):
        raise PredicateError(
            f"{sql} on the {side.value} side is not deterministic, so a retried task would not "
            "find the same rows; compute it upstream and store it, or leave it out",
            text,
        )
    return column.alias(name)


def _is_deterministic(tried: DataFrame) -> bool:
    """Whether Spark considers the added condition deterministic; Connect does not say."""
    plan = getattr(tried, "_jdf", None)
    if plan is None:
        return True
    return bool(plan.queryExecution().analyzed().expressions().apply(0).deterministic())


def numbered(frame: DataFrame) -> DataFrame:
    """The columns under other names, since theirs may hold dots."""
    return frame.toDF(*(f"c{at}" for at in range(len(frame.columns))))


def observed(joined: DataFrame, kind: str, label: str, reports: str) -> DataFrame:
    """The rows of the answer; the others are reports, which Spark collects under a name."""
    observed = joined.observe(f"{kind}-{label}", F.collect_list(METRICS).alias(reports))
    return observed.where(F.col(METRICS).isNull()).drop(METRICS)


def label_of(name: str | None, *facts: object) -> str:
    """What a join is called in metrics: its name, else eight digits that follow from the facts.

    They are the same wherever the call stands. The second of two equal joins gets ``-2``, since
    Spark refuses two metrics of one name in a query.
    """
    if name is not None:
        return name
    text = "\n".join(map(str, facts))
    label = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
    _used[label] += 1
    return label if _used[label] == 1 else f"{label}-{_used[label]}"
