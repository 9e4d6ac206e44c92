"""What a join on Spark is asked to do, as plain values that travel to every worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from thetastream.aggregate import Aggregate, result_type
from thetastream.boxes.binding import Binding, bind
from thetastream.condition.custom import Custom
from thetastream.condition.predicate import Predicate
from thetastream.engine.partition.choice import Multiples, choose
from thetastream.engine.partition.partition import COPY, POSITION, RANK, Partition
from thetastream.engine.partition.routing import Routing
from thetastream.engine.query import Query
from thetastream.plan.tactic import Tactic
from thetastream.shape import OutputShape
from thetastream.side import How, Side
from thetastream.spark.state.fingerprint import PARTITIONS, PREDICATE, written_keys
from thetastream.window import Window


@dataclass(frozen=True)
class JoinSpec:
    """A join over two schemas, and how it is partitioned.

    ``schemas`` hold the columns that travel: those of the answer, and those that predicate and
    window read, including expressions that Spark computes. ``answer`` lists the columns of the
    answer: name, side, and name there; aggregates are on the right side, under their own names.
    ``keys`` are the group keys of the partitions, chosen so that Spark places them apart.
    ``original`` is the predicate as the user wrote it. ``state_path`` is a folder for runs, if they
    are not in the state store. ``workers`` is the number of threads of each partition that share
    the parts of its window. ``in_files``: the whole state is files below ``state_path``, so that
    Spark's state store and its watermark are not used. ``residual`` is the user's own function, as
    bytes. ``name`` is the user's, ``label`` what the metrics are called by. ``multiples`` are the
    computed columns that are a constant times another expression.
    """

    on: str
    window: Window
    how: How
    self_join: bool
    tactic: Tactic
    suffix: str
    schemas: dict[Side, pa.Schema]
    answer: tuple[tuple[str, Side, str], ...]
    keys: tuple[int, ...]
    scheme: str
    cell_width: float | None
    batch_rows: int
    event_time: str | None
    original: str
    state_path: str | None = None
    aggregates: tuple[Aggregate, ...] = ()
    workers: int = 1
    in_files: bool = False
    residual: Custom | None = None
    name: str | None = None
    label: str = ""
    multiples: Multiples = field(default_factory=dict)

    def title(self, work: str) -> str:
        """What Spark's plans call a piece of work."""
        return f"thetastream: {work}" + ("" if self.name is None else f" {self.name}")

    @property
    def partitions(self) -> int:
        """How many partitions the join has."""
        return len(self.keys)

    @property
    def streams(self) -> tuple[Side, ...]:
        """The sides that arrive."""
        return (Side.LEFT,) if self.self_join else tuple(Side)

    @property
    def ranked(self) -> bool:
        """Whether a count window decides arrival by ranks."""
        return self.window.order is not None

    @property
    def wakes(self) -> bool:
        """Whether a partition has rows to return when only the watermark has moved."""
        return returns_later(self.how, self.aggregates)

    @cached_property
    def output(self) -> pa.Schema:
        """The columns of the answer."""
        fields = [pa.field(name, self._type(side, column)) for name, side, column in self.answer]
        if self.event_time is not None:
            kind = self.schemas[Side.LEFT].field(self.binding.time_columns[Side.LEFT]).type
            fields.append(pa.field(self.event_time, kind))
        return pa.schema(fields)

    def _type(self, side: Side, column: str) -> pa.DataType:
        """The type of a column of the answer."""
        if not self.aggregates or side is Side.LEFT:
            return self.schemas[side].field(column).type
        (aggregate,) = (one for one in self.aggregates if one.name == column)
        of = None if aggregate.column is None else self.schemas[side].field(aggregate.column).type
        return result_type(aggregate, of)

    @cached_property
    def gathered(self) -> tuple[str, ...]:
        """The engine's names for the columns of the answer, then for event times if wanted."""
        if self.aggregates:
            return tuple(column for _, _, column in self.answer)
        shape = OutputShape.of(
            self.schemas[Side.LEFT], self.schemas[Side.RIGHT], self.how, self.suffix
        )
        names = dict(zip(shape.origin, shape.schema.names, strict=True))
        wanted = [names[(side, column)] for _, side, column in self.answer]
        if self.event_time is not None:
            wanted += [names[place] for place in self.binding.time_columns.items()]
        return tuple(wanted)

    @cached_property
    def predicate(self) -> Predicate:
        """The condition over the columns that travel."""
        return Predicate.of(self.on, self.residual)

    @cached_property
    def binding(self) -> Binding:
        """Predicate and window bound to the columns that travel."""
        back = bool(self.aggregates)
        return bind(self.predicate, self.window, self.schemas, back=back)

    @cached_property
    def routing(self) -> Routing:
        """Where rows are sent."""
        return choose(
            self.binding,
            self.how,
            self.self_join,
            self.partitions,
            self.scheme,
            self.cell_width,
            rooted=bool(self.aggregates),
            multiples=self.multiples,
        )

    @cached_property
    def query(self) -> Query:
        """The query of one partition's engine."""
        return Query(
            self.predicate,
            self.window,
            self.how,
            self.self_join,
            self.tactic,
            self.suffix,
            tuple(dict.fromkeys(self.gathered)),
            1,
            self.batch_rows,
            workers=self.workers,
            aggregates=self.aggregates,
        )

    def stored(self, side: Side) -> list[str]:
        """The columns of a side's rows in a partition and its state, internal ones last."""
        copy = [COPY] if side in self.routing.copied else []
        rank = [RANK, POSITION] if self.ranked else []
        return [*self.schemas[side].names, *copy, *rank]

    def partition(self) -> Partition:
        """An empty partition."""
        return Partition(self.query, self.binding, self.routing.led)

    @cached_property
    def fingerprint(self) -> dict[str, str]:
        """What must not change between two starts from one checkpoint.

        Tactic and workers may: runs hold rows, and every start lays out its own indexes.
        """
        facts = {
            PREDICATE: self.original
            + ("" if self.residual is None else f" AND {self.residual.name}(l, r)"),
            "window": str(self.window),
            "how": self.how.value + (" self-join" if self.self_join else ""),
            PARTITIONS: written_keys(self.keys),
            "partitioning": self.routing.describe(),
            "output columns": ", ".join(self.output.names),
            "runs": "in the state store" if self.state_path is None else "in files",
            **({"state": "all in files"} if self.in_files else {}),
        }
        if self.aggregates:
            facts["aggregates"] = ", ".join(f"{one.name} = {one}" for one in self.aggregates)
        for side in self.streams:
            schema = self.schemas[side]
            facts[f"columns of the {side.value} side"] = ", ".join(
                f"{field.name} {_zoneless(field.type)}" for field in schema
            )
        return facts


def returns_later(how: How, aggregates: Sequence[Aggregate]) -> bool:
    """Whether rows of the answer may be due later than the micro-batch of their last pair."""
    return how not in (How.INNER, How.SEMI) or bool(aggregates)


def _zoneless(kind: pa.DataType) -> str:
    """A type by name, without the time zone in which Spark shows times."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return f"timestamp[{kind.unit}] with zone"
    return str(kind)
