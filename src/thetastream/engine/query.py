"""What a join is asked to do: plain values, checked once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

from thetastream.aggregate import Aggregate
from thetastream.condition.predicate import Predicate
from thetastream.duration import Interval
from thetastream.engine.single_key import refuse_ranges
from thetastream.errors import OptionError
from thetastream.options.checks import read_count, read_flag, read_text
from thetastream.output_mode import Output
from thetastream.plan.tactic import Tactic
from thetastream.side import How, Side
from thetastream.window import Window, check_window


@dataclass(frozen=True)
class Query:
    """Predicate, window, mode and options of a join.

    ``workers`` is the number of threads that share the parts of a window. ``collect`` rows, or
    those of ``collect_time``, are processed together; None means no such limit. ``output`` says
    what is returned for matches. With ``aggregates``, over columns of the right side, every left
    row returns one row: its own columns and the aggregates of the right rows it matches.
    """

    predicate: Predicate
    window: Window
    how: How
    self_join: bool
    tactic: Tactic
    suffix: str
    columns: tuple[str, ...] | None
    threads: int
    batch_rows: int
    workers: int = 1
    collect: int | None = None
    collect_time: Interval | None = None
    output: Output = Output.ROWS
    aggregates: tuple[Aggregate, ...] = ()

    def __post_init__(self) -> None:
        check_window(self.window)
        for name in ("threads", "batch_rows", "workers"):
            read_count(name, getattr(self, name))
        if self.collect is not None:
            read_count("collect", self.collect)
        read_flag("self_join", self.self_join)
        read_text("suffix", self.suffix)
        self.dealt_tactic.check()
        self.output.check(self.how, self.columns)
        if self.aggregates:
            self._check_aggregated()
        if self.output is Output.RANGES:
            refuse_ranges(
                self.predicate,
                self.window,
                self.tactic,
                self_join=self.self_join,
                collects=self.collects,
            )

    def _check_aggregated(self) -> None:
        if self.how is not How.INNER:
            raise OptionError(
                f"with aggregate= every left row returns one row, matched or not, so how must be "
                f"'inner'; got how={self.how.value!r}"
            )
        if self.output is not Output.ROWS:
            raise OptionError(
                "aggregate= returns the columns of left rows, so output must be 'rows'; got "
                f"output={self.output.value!r}. Leave one of the two out"
            )
        if self.window.timed and not self.window.boxed:
            raise OptionError(
                "aggregate= needs a window that ends when a left row arrives, as count and time "
                f"windows do; got {self.window}"
            )
        if self.self_join:
            raise OptionError(
                "aggregate= is for two streams; a self-join has one. Push the stream as left and "
                "as right, and exclude pairs of a row with itself in the condition"
            )

    @cached_property
    def dealt_tactic(self) -> Tactic:
        """The tactic, with ``workers`` among its parameters if there is more than one."""
        return self.tactic.with_workers(self.workers)

    @property
    def collects(self) -> bool:
        """Whether rows gather before they are processed."""
        return self.collect is not None or self.collect_time is not None

    @property
    def streams(self) -> tuple[Side, ...]:
        """The sides that are pushed; the only stream of a self-join is left."""
        return (Side.LEFT,) if self.self_join else tuple(Side)

    def roles(self, stream: Side) -> tuple[Side, ...]:
        """The sides of a pair on which rows of a stream can stand."""
        return tuple(Side) if self.self_join else (stream,)

    def always_returns(self, side: Side) -> bool:
        """Whether rows of a side are returned even if they match nothing."""
        return self.how.keeps(side) or (bool(self.aggregates) and side is Side.LEFT)

    @property
    def deferred(self) -> bool:
        """Whether left rows probe when they are final, and not when they arrive."""
        return bool(self.aggregates) and self.window.timed

    def stores(self, side: Side) -> bool:
        """Whether rows of a side are stored at all."""
        return not self.aggregates or side is Side.RIGHT or self.deferred

    def asks(self, side: Side) -> bool:
        """Whether rows of a side probe the other side when they are due."""
        return not self.aggregates or (side is Side.LEFT and not self.deferred)

    def tracked(self, side: Side) -> list[Side]:
        """The roles in which a stream needs a match flag per row."""
        if self.aggregates:
            return [side] if side is Side.LEFT and self.deferred else []
        return [role for role in self.roles(side) if self.how.tracks(role)]

    @cached_property
    def mirrored(self) -> bool:
        """Whether a self-join finds the same pairs in both orders."""
        return self.self_join and self.predicate.is_symmetric and self.window.symmetric

    @property
    def ranked(self) -> bool:
        """Whether ranks decide arrival, so that rows may have to wait for their turn."""
        return self.window.order is not None and not self.self_join


@dataclass(frozen=True, slots=True)
class Traits:
    """How an engine is used. The defaults suit one that sees all rows of the join.

    ``led``: a pair is returned only where its row of that side is at home; None if each pair meets
    once anyway. ``placed``: rows carry their positions among all rows of their stream. ``mirrors``:
    a self-join may find a pair once and return it in both orders. ``renumbers``: stored rows may
    get new ids.
    """

    led: Side | None = None
    placed: bool = False
    mirrors: bool = True
    renumbers: bool = True


def patience(value: str | timedelta | Interval | None) -> Interval | None:
    """Read how long rows are collected: a duration such as ``100 ms``; None for no limit."""
    if value is None:
        return None
    try:
        wait = Interval.of(value)
    except ValueError as error:
        raise OptionError(f"collect_time: {error}") from None
    if wait.nanoseconds <= 0:
        raise OptionError(f"collect_time must be positive; got {value!r}")
    return wait
