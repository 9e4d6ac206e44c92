"""Run the engine and the oracle over a scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

import thetastream as ts
from thetastream.testing.streams import Scenario
from thetastream.truth import oracle

Pair = tuple[int | None, int | None]
JoinFactory = Callable[..., Any]
ROW = "row number"


@dataclass(frozen=True)
class Outcome:
    """The answer of the engine: row-number pairs, its last metrics, and the batches."""

    pairs: list[Pair]
    metrics: Any
    batches: list[Any]

    @property
    def late(self) -> dict[str, int]:
        """Dropped rows per side, as in an oracle's answer."""
        return {side: self.metrics.sides[side].dropped for side in ("left", "right")}


def make_join(tactic: str | ts.Tactic) -> JoinFactory:
    """A factory of joins that use one tactic."""
    return partial(ts.StreamJoin, tactic=tactic)


def numbered(scenario: Scenario) -> list[tuple[Any, Any]]:
    """The pushes, each row with its number on its side as a further column."""
    seen, pushes = [0, 0], []
    for push in scenario.pushes:
        tables: list[Any] = []
        for position, table in enumerate(push):
            if table is not None:
                numbers = range(seen[position], seen[position] + table.num_rows)
                seen[position] += table.num_rows
                table = table.append_column(ROW, pa.array(numbers, pa.int64()))
            tables.append(table)
        pushes.append((tables[0], tables[1]))
    return pushes


def run_engine(
    scenario: Scenario,
    make: JoinFactory | None = None,
    *,
    lazy: bool = False,
    check: bool = False,
    each: Callable[[Any], None] | None = None,
    **options: Any,
) -> Outcome:
    """Push everything, flush, and collect row-number pairs.

    ``lazy``: read no answer before the whole stream has been pushed. ``check``: call the join's own
    ``check()`` after every step. ``each`` is called with the join after every push.
    """
    join = (make or ts.StreamJoin)(
        scenario.on,
        window=scenario.window,
        how=scenario.how,
        self_join=scenario.self_join,
        **options,
    )
    answers: list[Iterator[Any]] = []
    for left, right in numbered(scenario):
        other = {} if scenario.self_join else {"right": right}
        answer = join.push(left=left, **other)
        answers.append(answer if lazy else iter(list(answer)))
        if check:
            join.check()
        if each is not None:
            each(join)
    answers.append(join.flush())
    batches = [batch for answer in answers for batch in answer]
    if check:
        join.check()
    # Without a left row ever, its columns are unknown and those of the right keep their names.
    names = (f"{ROW}_right", ROW) if scenario.table(0) is None else (ROW, f"{ROW}_right")
    pairs = [pair for batch in batches for pair in _pairs(batch, names)]
    return Outcome(pairs, join.metrics(), batches)


def _pairs(batch: Any, names: tuple[str, str]) -> list[Pair]:
    """Row numbers of an output batch; a side that is not part of the output is None."""
    left, right = (
        batch.column(name).to_pylist() if name in batch.schema.names else [None] * batch.num_rows
        for name in names
    )
    return list(zip(left, right, strict=True))


def run_oracle(scenario: Scenario) -> oracle.Truth:
    """The truth about a scenario."""
    return oracle.join(
        scenario.pushes, scenario.on, scenario.window, scenario.how, scenario.self_join
    )
