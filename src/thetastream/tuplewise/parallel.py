"""The parallel index-based window join of Arrow streams: exact, and in arrival order.

    join = ParallelJoin("abs(l.x - r.x) <= 5", window=CountWindow(1 << 20), threads=2)
    for batch in join.push(left=…, right=…, arrival=…):
        …                      rows in the order in which the later row of a pair arrived

``StreamJoin`` processes batches: it probes with all rows, then stores all of them, which is fastest
for large batches. Here threads that share the indexes process tuples one by one, in arrival order
over both sides (PIM-Tree, Section 4). So pairs are emitted in the order in which they arise, and
the rows of one push may be interleaved as they arrived.

It serves inner joins of two streams or of one with itself, count windows (not by rank) and time
windows, and any predicate with a term that yields one interval per row. That term drives the index;
all others are checked on the candidate pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from thetastream._jit.arrays import Array
from thetastream.boxes.binding import Binding
from thetastream.boxes.fresh import Fresh
from thetastream.condition.expression import Expression
from thetastream.condition.predicate import Predicate
from thetastream.data.batch import conform
from thetastream.engine.engine import Engine
from thetastream.engine.parts.batches import Batches
from thetastream.engine.query import Query, Traits
from thetastream.errors import (
    DataError,
    OptionError,
    RegistryError,
    WindowError,
    suggest,
)
from thetastream.metrics import Metrics
from thetastream.options.checks import read_count
from thetastream.output_mode import Output
from thetastream.plan.explanation import Explanation
from thetastream.plan.tactic import Tactic
from thetastream.side import Side
from thetastream.stream_join import StreamJoin
from thetastream.tuplewise.crew import MOST_THREADS
from thetastream.tuplewise.ibwj import IndexJoin, joinable
from thetastream.tuplewise.meeting import SharedMeeting
from thetastream.window import Window, check_window

__all__ = ["ParallelJoin"]

_FAMILY, _STRUCTURE = "ibwj", "pim-tree"


class ParallelJoin(StreamJoin):
    """Join two streams tuple by tuple, in arrival order, with several threads.

    Takes the options of ``StreamJoin`` (``output`` is rows or pairs), and: ``structure``, pim-tree
    or any other in ``thetastream.ibwj.joinable()``, with its ``parameters``, or both in one as in
    "pim-tree(depth=3)"; the same as a ``tactic``, also "ibwj/pim-tree(depth=3)"; ``threads``, which
    may change while a push runs; ``task_size``, the tuples a thread takes at a time; ``merge``,
    whether other threads wait for a merge. A push finds its pairs before it returns and holds them
    as numbers; payload is gathered while the result is read.

    >>> import pyarrow as pa
    >>> from thetastream import CountWindow
    >>> join = ParallelJoin("abs(l.x - r.x) <= 1", window=CountWindow(100))
    >>> left, right = pa.record_batch({"x": [1, 5]}), pa.record_batch({"x": [4, 2]})
    >>> [batch.to_pylist() for batch in join.push(left=left, right=right, arrival=[0, 1, 1, 0])]
    [[{'x': 1, 'x_right': 2}, {'x': 5, 'x_right': 4}]]
    """

    def __init__(
        self,
        on: str | Predicate | Expression,
        *,
        window: Window,
        structure: str | Tactic = _STRUCTURE,
        tactic: str | Tactic | None = None,
        threads: int = 2,
        task_size: int = 8,
        merge: str = "non-blocking",
        parameters: Mapping[str, Any] | None = None,
        suffix: str = "_right",
        self_join: bool = False,
        batch_rows: int = 65_536,
        columns: Sequence[str] | None = None,
        schemas: tuple[pa.Schema, pa.Schema] | None = None,
        output: str | Output = "rows",
        perturb: int = 0,
    ) -> None:
        check_window(window)
        if window.waits:
            raise WindowError(
                "ParallelJoin takes arrival from the order of rows, so rows cannot wait for ranks "
                f"or the end of a session; got {window}. Use StreamJoin"
            )
        output = Output.of(output)
        if output.bounded:
            raise OptionError(
                f"ParallelJoin finds pairs one by one, so it has no output={output.value!r}; use "
                "output='rows' or output='pairs', or StreamJoin"
            )
        full = _full_tactic(structure, tactic, {} if parameters is None else parameters)
        self._structure = full.index or _STRUCTURE
        self._options: dict[str, Any] = {
            "threads": threads,
            "task_size": task_size,
            "merge": merge,
            "parameters": dict(full.parameters),
            "perturb": perturb,
        }
        IndexJoin(self._structure, (1, 1), **self._options)  # raises for wrong options
        super().__init__(
            on,
            window=window,
            tactic=full,
            suffix=suffix,
            self_join=self_join,
            batch_rows=batch_rows,
            columns=columns,
            schemas=schemas,
            output=output,
        )

    def push(
        self,
        left: Any = None,
        right: Any = None,
        arrival: ArrayLike | None = None,
    ) -> Batches:
        """Take fresh rows and return the joined rows that follow from them, in arrival order.

        ``arrival`` holds the side of each row of the push, 0 (left) or 1 (right), in arrival order.
        Without it, all left rows come before all right rows.
        """
        if arrival is not None:
            given = zip(Side, (left, right), strict=True)
            left, right = (
                None if rows is None else conform(rows, self._schemas.get(side), side.value)
                for side, rows in given
            )
        self._arrival = None if arrival is None else _read_arrival(arrival, left, right)
        return super().push(left, right)

    @property
    def threads(self) -> int:
        """The number of threads. May be changed at any time, also while a push runs.

        Where a structure divides the window among threads (round-robin, nested-loop), and in a join
        made with ``threads=0``, the number is fixed once rows have come: OptionError.
        """
        return int(self._options["threads"])

    @threads.setter
    def threads(self, count: int) -> None:
        if self._meeting is not None:
            self._meeting.joined.resize(count)
        elif count != self.threads:
            read_count("threads", count, most=MOST_THREADS)
            IndexJoin(self._structure, (1, 1), **{**self._options, "threads": count})
        self._options["threads"] = count

    def explain(self, *, verbose: bool = False) -> Explanation:
        """What is joined, over which shared indexes, and how threads divide the work."""
        plain = super().explain(verbose=verbose)
        if self._meeting is None:
            return plain
        facts = {name: fact for name, fact in plain.as_dict().items() if name != "plan"}
        return Explanation.of({**facts, **self._meeting.facts()}, verbose=verbose)

    def metrics(self) -> Metrics:
        """Counters, sizes and times up to now, those of the shared indexes among them."""
        metrics = super().metrics()
        return metrics if self._meeting is None else self._meeting.measured(metrics)

    _arrival: Array | None = None
    _meeting: SharedMeeting | None = None

    def _make_engine(self, query: Query, binding: Binding) -> Engine:
        def meeting(engine: Engine) -> SharedMeeting:
            self._meeting = SharedMeeting(engine, self._structure, self._options)
            return self._meeting

        facts = (query, binding, self._counters, self._side_counters, self._skipped)
        return Engine(*facts, Traits(renumbers=False), meeting)

    def _steps(self, engine: Engine, batches: dict[Side, pa.RecordBatch]) -> list[list[Fresh]]:
        """Store the arrival of rows as their positions."""
        steps = super()._steps(engine, batches)
        placed, arrival = [_in_turn(rows) for rows in steps], self._arrival
        if arrival is not None:
            at = {side: np.flatnonzero(arrival == side.position) for side in Side}
            placed[-1] = [rows.placed(positions=at[rows.side]) for rows in steps[-1]]
        return placed


def _in_turn(fresh: list[Fresh]) -> list[Fresh]:
    """Place rows that arrive one batch after another."""
    ends = np.cumsum([rows.count for rows in fresh])
    return [
        rows.placed(positions=np.arange(end - rows.count, end))
        for rows, end in zip(fresh, ends, strict=True)
    ]


def _full_tactic(
    structure: str | Tactic, tactic: str | Tactic | None, parameters: Mapping[str, Any]
) -> Tactic:
    """The structure with its parameters, as a tactic with the full name."""
    if tactic is not None and structure != _STRUCTURE:
        raise OptionError(
            f"the structure was given twice: structure={str(structure)!r} and "
            f"tactic={str(tactic)!r}; pass it once"
        )
    if not isinstance(parameters, Mapping):
        raise OptionError(
            f"parameters must be a mapping such as {{'depth': 3}}; got {parameters!r}"
        )
    given = Tactic.of(structure if tactic is None else tactic)
    family, stroke, index = given.name.partition("/")
    if family != _FAMILY:
        index = given.name
    elif not stroke:
        index = _STRUCTURE
    if index not in joinable():
        raise RegistryError(
            f"structure must be one of {', '.join(joinable())}; got {str(given)!r}."
            f"{suggest(index, joinable())}"
        )
    return Tactic(f"{_FAMILY}/{index}{str(given).removeprefix(given.name)}", **parameters)


def _read_arrival(arrival: ArrayLike, left: Any, right: Any) -> Array:
    order = np.asarray(arrival)
    counts = [0 if rows is None else rows.num_rows for rows in (left, right)]
    if order.ndim != 1 or order.dtype.kind not in "biu" or not np.isin(order, (0, 1)).all():
        raise DataError("arrival must be one 0 (left) or 1 (right) per row, in order of arrival")
    given = [int(np.count_nonzero(order == side)) for side in (0, 1)]
    if given != counts:
        raise DataError(
            f"arrival names {given[0]} left and {given[1]} right rows; the push has {counts[0]} "
            f"and {counts[1]}"
        )
    return order.astype(np.int64)
