"""Windows of rows at work, for papers that measure structures and whole joins in the same way.

:class:`Filled` is a structure with rows in it. :class:`Holding` is the trial of one: the clock runs
while it is asked, while rows go in and while they expire. :class:`Joining` is the trial of a whole
join, thetastream's or a peer's. :class:`Reported` has numbers that need no clock. :class:`Sharing`
is a course that keeps the input of a cell for all its contestants.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from thetabench.arrays import Array
from thetabench.contestant import MissingPackage, Unavailable
from thetabench.digest import Digest, digest, verify
from thetabench.feed import Feed
from thetabench.figure import Cell, Contestant
from thetabench.peers import create
from thetabench.race import Course, Trial, Values
from thetastream.errors import PredicateError, RegistryError
from thetastream.side import Side

_FILL = 1 << 16  # rows per insertion while filling

T = TypeVar("T")
K = TypeVar("K", bound=Contestant)
C = TypeVar("C", bound=Cell[Any])


@dataclass
class Filled:
    """A structure that holds the rows ``first … count - 1`` of a load."""

    structure: Any
    """An index, or something that looks like one."""
    load: Any
    """Its ``batch(start, stop)`` returns keys and ids."""
    count: int = 0
    first: int = 0

    def fill(self, stop: int, step: int = _FILL) -> None:
        """Insert rows up to ``stop``."""
        while self.count < stop:
            self.structure.insert(*self.next(min(step, stop - self.count)))

    def next(self, rows: int) -> tuple[Array, Array]:
        """Keys and ids of the next rows, which are counted as inserted."""
        self.count += rows
        keys, ids = self.load.batch(self.count - rows, self.count)
        return keys, ids

    def expire(self, before: int) -> None:
        """Forget the first rows."""
        self.structure.expire(before)
        self.first = before

    @property
    def nbytes(self) -> int:
        """Bytes of the structure."""
        return int(self.structure.nbytes)


class Batched(Trial[K]):
    """A trial whose line says how many batches there were, and how large the structure is.

    ``stored``: rows of the full window.
    """

    def __init__(self, who: K, label: str, stored: int) -> None:
        super().__init__(who, label, several=dict(who.parameters).get("workers", 1) > 1)
        self._stored = stored
        self.waits: list[float] = []
        """Seconds of each batch."""

    @property
    def nbytes(self) -> int:
        """Bytes of the structure, where they are known."""
        raise NotImplementedError

    @property
    def ns_per_tuple(self) -> float:
        """The time of a tuple."""
        return 1e9 * self.seconds / max(self.tuples, 1)

    def restart(self) -> None:
        super().restart()
        self.waits.clear()

    def count(self, tuples: int, pairs: int, before: float) -> None:
        """Count a batch that took the seconds since ``before``."""
        self.waits.append(self.seconds - before)
        self.tuples += tuples
        self.pairs += pairs

    @property
    def columns(self) -> Values:
        return {
            **super().columns,
            "batches": self.steps,
            "ns_per_tuple": self.ns_per_tuple,
            "pairs": self.pairs,
            "checked_tuples": self.checked,
            "index_bytes": self.nbytes,
            "bytes_per_row": self.nbytes / self._stored,
        }


class Holding(Batched[K]):
    """A trial of one filled structure."""

    held: Filled

    @property
    def nbytes(self) -> int:
        return self.held.nbytes

    def ask(self, lows: Array, highs: Array) -> Digest:
        """Ask and read the answer."""
        return self.read(lambda: self.held.structure.probe(lows, highs))

    def enter(self, count: int) -> None:
        """Insert the next rows."""
        rows = self.held.next(count)
        self.timed(lambda: self.held.structure.insert(*rows))

    def expire(self, before: int) -> None:
        """Let the first rows expire."""
        self.timed(lambda: self.held.expire(before))


class Joining(Batched[K]):
    """A whole join: Arrow in, Arrow out, push by push.

    Pushes alternate between the sides; a self-join has one. Everything a join does is timed: keys,
    sorting, probing, inserting, expiring, making the answer. ``spec`` names the join as a peer. The
    first ``untimed`` pushes are not timed; fewer, where they take longer than ``budget`` seconds.
    """

    def __init__(
        self, who: K, label: str, feed: Feed, spec: str, untimed: int = 1, budget: float = math.inf
    ) -> None:
        super().__init__(who, label, feed.query.window)
        self.feed = feed
        self.digests: list[Digest] = []
        try:
            self._join = create(spec, feed.query)
            self._join.prefill(*feed.prefill())
        except (MissingPackage, RegistryError, PredicateError) as error:
            raise Unavailable(str(error)) from None
        while len(self.digests) < untimed and self.seconds < budget:
            self.step()
        self.restart()

    def step(self) -> bool:
        """Push one batch."""
        push, feed, before = len(self.digests), self.feed, self.seconds
        if push == feed.pushes:
            return False
        side, rows = feed.side(push), feed.rows(push)
        answer = self.timed(lambda: self._join.push(side, rows))
        self.digests.append(self.digest(answer, side))
        self.count(rows.num_rows, self.digests[-1].matches, before)
        return True

    def digest(self, answer: pa.Table, side: Side) -> Digest:
        """The digest of the answer to a push."""
        return digest(answer)

    @property
    def nbytes(self) -> int:
        return self._join.index_bytes()


J = TypeVar("J", bound=Joining[Any])


def check_joins(joins: Sequence[J], truths: Callable[[J, int], Sequence[Digest]]) -> None:
    """Compare the answers of joins that had the same input and share the right answers."""
    if not joins:
        return
    right = truths(joins[0], max(len(trial.digests) for trial in joins))
    for trial in joins:
        verify(trial.name, trial.digests, right, "batch")
        trial.checked = len(trial.digests) * trial.feed.batch


class Reported(Trial[K]):
    """Numbers that need no clock."""

    def __init__(self, who: K, label: str, values: Iterable[Values]) -> None:
        super().__init__(who, label)
        self._values = list(values)

    def turn(self, number: int, seconds: float) -> None:
        """Nothing is timed."""

    def lines(self) -> Iterable[Values]:
        return self._values


class Sharing(Course[C, K]):
    """A course that keeps the input of the present cell."""

    _cell: C | None = None
    _input: Any = None

    def shared(self, cell: C, make: Callable[[], T]) -> T:
        """The input of all contestants of a cell; that of another cell is forgotten first."""
        if self._cell is not cell:
            self._cell = self._input = None
            self.tidy()
            self._cell, self._input = cell, make()
        made: T = self._input
        return made

    def tidy(self) -> None:
        """Make room for the input of another cell."""
