"""``ts.join`` and ``ts.join_iter``: two finite tables on any comparison, exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from thetastream.aggregate import of_right, read_aggregates
from thetastream.condition.custom import PairFunction
from thetastream.condition.expression import Expression
from thetastream.condition.predicate import Predicate
from thetastream.data.frames import batches_of, frame_of
from thetastream.engine.query import Query
from thetastream.errors import OptionError
from thetastream.options.checks import read_columns, read_flag
from thetastream.output_mode import Output
from thetastream.plan.tactic import Tactic
from thetastream.side import How, Side
from thetastream.tables.finite import FiniteJoin
from thetastream.window import Unbounded

_PIECE = 1 << 20  # rows of a piece, if the whole answer is made anyway: columns in huge pages


def join(
    left: Any,
    right: Any,
    on: str | Predicate | Expression,
    how: str | How = "inner",
    *,
    suffix: str = "_right",
    columns: Sequence[str] | None = None,
    tactic: str | Tactic = "auto",
    threads: int = 1,
    output: str | Output = "rows",
    aggregate: Mapping[str, str | tuple[str, str]] | None = None,
    progress: bool | None = None,
    residual: PairFunction | None = None,
) -> Any:
    """Join two finite tables on any comparison; return a table of the left one's kind.

    A table is an Arrow table, batch or reader, a pandas or Polars frame (lazy ones too), a DuckDB
    relation, a dict of columns, a list of dicts, or an iterator of these. ``on`` and ``how`` are
    those of ``StreamJoin``, but there is no window: every left row meets every right row. One side
    is stored, the other streamed past it, whichever is cheaper. Rows come in no particular order,
    which is the same for any number of ``threads``.

    ``output="pairs"`` returns row numbers, ``"count"`` the number of matches of each left row that
    has any. ``aggregate`` returns one row per left row. ``progress`` shows a bar for long work; by
    default on a terminal only. ``residual`` is a function of your own that decides candidate pairs;
    threads call it at the same time. Cost: O(s log s) for s stored rows, a search per streamed row,
    and the output. For an answer larger than memory use ``join_iter``.

    >>> join({"x": [1, 5, 9]}, {"y": [4, 20]}, "abs(l.x - r.y) <= 1")
    {'x': [5], 'y': [4]}
    """
    result = _made(
        left,
        right,
        on,
        how,
        suffix=suffix,
        columns=columns,
        tactic=tactic,
        threads=threads,
        output=output,
        aggregate=aggregate,
        progress=progress,
        batch_rows=_PIECE,
        residual=residual,
    )
    return frame_of(result.kind, result.to_table(), result.types)


def join_iter(
    left: Any,
    right: Any,
    on: str | Predicate | Expression,
    how: str | How = "inner",
    *,
    suffix: str = "_right",
    columns: Sequence[str] | None = None,
    tactic: str | Tactic = "auto",
    threads: int = 1,
    output: str | Output = "rows",
    aggregate: Mapping[str, str | tuple[str, str]] | None = None,
    progress: bool | None = None,
    batch_rows: int = 65_536,
    residual: PairFunction | None = None,
) -> FiniteJoin:
    """The same as ``join``, as an iterator of Arrow batches of at most ``batch_rows`` rows.

    Nothing is read before the plan is made, and no row is joined before it is asked for. The result
    has ``.schema``, ``.explain()``, ``.metrics()``, and ``.to_table()`` for the rest.

    >>> result = join_iter({"x": [1, 5, 9]}, {"y": [4, 20]}, "abs(l.x - r.y) <= 1")
    >>> [batch.to_pylist() for batch in result]
    [[{'x': 5, 'y': 4}]]
    """
    return _made(
        left,
        right,
        on,
        how,
        suffix=suffix,
        columns=columns,
        tactic=tactic,
        threads=threads,
        output=output,
        aggregate=aggregate,
        progress=progress,
        batch_rows=batch_rows,
        residual=residual,
    )


def _made(
    left: Any,
    right: Any,
    on: str | Predicate | Expression,
    how: str | How,
    *,
    suffix: str,
    columns: Sequence[str] | None,
    tactic: str | Tactic,
    threads: int,
    output: str | Output,
    aggregate: Mapping[str, str | tuple[str, str]] | None,
    progress: bool | None,
    batch_rows: int,
    residual: PairFunction | None,
) -> FiniteJoin:
    """The join, planned but not begun."""
    form = Output.of(output)
    if form is Output.RANGES:
        raise OptionError(
            "ranges point into the memory of a running join, and this one ends with its answer; "
            "use output='pairs' or output='count'"
        )
    if progress is not None:
        read_flag("progress", progress)
    query = Query(
        Predicate.of(on, residual),
        Unbounded(),
        How.of(how),
        False,
        Tactic.of(tactic),
        suffix,
        read_columns(columns),
        threads,
        batch_rows,
        output=form,
        aggregates=() if aggregate is None else of_right(read_aggregates(aggregate)),
    )
    given = zip(Side, (left, right), strict=True)
    sources = {
        side: batches_of(rows, None, f"the {side.value} side", infer=True) for side, rows in given
    }
    return FiniteJoin(query, sources, progress=progress)
