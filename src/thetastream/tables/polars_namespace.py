"""``frame.theta.join(other, on)`` for Polars frames, registered by ``import thetastream.polars``.

>>> import polars as pl
>>> import thetastream.polars
>>> trades, quotes = pl.DataFrame({"p": [1, 5]}), pl.DataFrame({"q": [4, 9]})
>>> trades.theta.join(quotes, "abs(l.p - r.q) <= 1").rows()
[(5, 4)]

On a LazyFrame the join is lazy too: it runs when the plan is collected, reads only the columns that
the plan needs, stops when enough rows were read, and hands its batches over without a copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from thetastream.condition.expression import Expression
from thetastream.condition.predicate import Predicate
from thetastream.data.frames import batches_of
from thetastream.side import How
from thetastream.tables.join import join, join_iter

__all__ = ["LazyTheta", "Theta"]


@pl.api.register_dataframe_namespace("theta")
class Theta:
    """``frame.theta`` of a DataFrame."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    def join(
        self, other: Any, on: str | Predicate | Expression, how: str | How = "inner", **options: Any
    ) -> pl.DataFrame:
        """``thetastream.join`` with this frame as the left side; all its options."""
        joined: pl.DataFrame = join(self._frame, other, on, how, **options)
        return joined


@pl.api.register_lazyframe_namespace("theta")
class LazyTheta:
    """``frame.theta`` of a LazyFrame."""

    def __init__(self, frame: pl.LazyFrame) -> None:
        self._frame = frame

    def join(
        self, other: Any, on: str | Predicate | Expression, how: str | How = "inner", **options: Any
    ) -> pl.LazyFrame:
        """``thetastream.join`` as a lazy frame; ``other`` is read now, unless it is lazy too."""
        left, columns = self._frame, options.pop("columns", None)
        if not isinstance(other, pl.LazyFrame):
            other = batches_of(other, None, "the right side", infer=True).read_all()

        def rows(
            with_columns: list[str] | None,
            predicate: pl.Expr | None,
            n_rows: int | None,
            batch_size: int | None,
        ) -> Iterator[pl.DataFrame]:
            wanted = columns if with_columns is None else with_columns
            result = join_iter(left, other, on, how, columns=wanted, **options)
            for batch in result:
                frame = _frame(pa.Table.from_batches([batch]))
                if predicate is not None:
                    frame = frame.filter(predicate)
                if n_rows is not None:
                    frame = frame.head(n_rows)
                    n_rows -= frame.height
                yield frame
                if n_rows == 0:
                    return

        def schema() -> pl.Schema:
            none = join_iter(_empty(left), _empty(other), on, how, columns=columns, **options)
            return _frame(none.to_table()).schema

        return register_io_source(rows, schema=schema, is_pure=True)


def _empty(rows: Any) -> Any:
    """The columns of a lazy frame or a table, without its rows."""
    return rows.collect_schema().to_frame() if isinstance(rows, pl.LazyFrame) else rows[:0]


def _frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table, rechunk=False)
    assert isinstance(frame, pl.DataFrame)
    return frame
