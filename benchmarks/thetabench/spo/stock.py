"""Structures, filled and kept for the next contestant that needs the same; and right answers.

A window of millions of rows takes longer to fill than to ask for a third of a second, and most
figures ask the same windows in several ways. Loads, full windows and what they hold are kept until
there is too much of them; what was not used for the longest time goes first.

What a full window holds is counted by a :class:`~thetabench.answers.Census`. For windows that move
or grow, and for whole joins, all candidates of an offline search are looked at, as
:mod:`thetabench.reference` does; the terms and the window are tested on each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from thetabench.answers import Census, Tally
from thetabench.arrays import Array
from thetabench.contestant import Unavailable
from thetabench.digest import Digest, mix, row_hash, weighed, weights
from thetabench.feed import Feed
from thetabench.query import Query, Values
from thetabench.reference import candidates
from thetabench.shelf import Shelf
from thetabench.spo.contestant import Contestant, Rows
from thetabench.spo.load import Load
from thetabench.structures import made
from thetabench.windows import Filled
from thetastream.errors import DataError
from thetastream.index import Index
from thetastream.side import Side

_STRUCTURES = 3 << 29  # bytes
_LOADS = 3 << 28

Maker = Callable[[Contestant], Index]


def make(who: Contestant) -> Index:
    """Make an empty structure over two key columns, or say why it cannot be had."""
    return made(who.structure, who.window, who.parameters, columns=2)


class Stock:
    """Loads, full windows and what they hold."""

    def __init__(self, maker: Maker) -> None:
        self._make = maker
        self._loads = Shelf[Load](_LOADS)
        self._answers = Shelf[Answers](_LOADS)
        self._full = Shelf[Filled](_STRUCTURES)

    def load(self, rows: Rows) -> Load:
        """The rows themselves."""
        try:
            return self._loads.get(rows, lambda: Load(rows), lambda load: load.nbytes)
        except DataError as error:
            raise Unavailable(str(error)) from None

    def answers(self, rows: Rows, window: int, count: int) -> Answers:
        """The right answers to the first ``count`` fresh rows, which ask a full window."""
        make = lambda: Answers(self.load(rows), window, count)  # noqa: E731
        return self._answers.get((rows, window, count), make, lambda own: own.nbytes)

    def full(self, who: Contestant) -> Filled:
        """A structure with a full window, which must not be changed."""
        key = (who.structure, who.parameters, who.rows, who.window, who.step, who.tail)
        return self._full.get(key, lambda: self.fresh(who, who.window), lambda own: own.nbytes)

    def fresh(self, who: Contestant, count: int) -> Filled:
        """A structure of its own with the first ``count`` rows."""
        load = self.load(who.rows)  # before any structure, which may be missing
        held = Filled(self._make(who), load)
        held.fill(max(0, count - who.tail), who.step)
        held.fill(count, who.few)
        return held


class Answers:
    """What the first ``count`` fresh rows match among the first ``window`` stored rows."""

    def __init__(self, load: Load, window: int, count: int) -> None:
        census = Census(*(column[:window] for column in load.stored.values()))
        held = census.boxes(*load.intervals(0, count))
        self._counts, self._sums = (part.reshape(-1, count) for part in held)  # role by role
        self.nbytes = self._counts.nbytes + self._sums.nbytes

    def digest(self, start: int, stop: int) -> Digest:
        """The digest of the right answer to fresh rows that ask together."""
        counts, sums = (part[:, start:stop].ravel() for part in (self._counts, self._sums))
        return Digest(int(counts.sum()), weighed(np.arange(counts.size), sums))


class Step(NamedTuple):
    """Fresh rows ``start … stop - 1`` ask for stored rows ``begin … end - 1``."""

    start: int
    stop: int
    begin: int
    end: int


def moving(load: Load, steps: Sequence[Step]) -> list[Digest]:
    """The digests of the right answers of steps, in order and without gaps.

    Cost: a sort of all rows that are stored in some step, and the candidates.
    """
    sizes = np.array([step.stop - step.start for step in steps])
    step_of = np.repeat(np.arange(len(steps)), sizes)
    within = np.arange(step_of.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    begins, ends = (np.array([step[n] for step in steps])[step_of] for n in (2, 3))
    fresh = load.fresh(steps[0].start, steps[-1].stop)
    tally = Tally(len(steps))
    for role, rows, ids in _matches(load.query, load.roles, fresh, load.stored, begins, ends):
        positions = within[rows] + load.roles.index(role) * sizes[step_of[rows]]
        tally.add(step_of[rows], weights(positions) * row_hash(ids))
    return tally.digests


def pushed(feed: Feed, pushes: int) -> list[Digest]:
    """The digests of the right answers of a self-join with inequalities, push by push.

    Each row asks in both roles for the rows at most a window before it.
    """
    query, stop = feed.query, feed.start(pushes)
    columns = {name: feed.left.column(name).to_numpy() for name in query.columns}
    fresh = {name: column[feed.filled : stop] for name, column in columns.items()}
    ends = np.arange(feed.filled, stop)
    begins = np.maximum(ends - query.window, 0)
    tally = Tally(pushes)
    for role, rows, ids in _matches(query, Side, fresh, columns, begins, ends):
        pair = (ends[rows], ids) if role is Side.LEFT else (ids, ends[rows])
        tally.add(rows // feed.batch, mix(*pair))
    return tally.digests


def _matches(
    query: Query, roles: Iterable[Side], fresh: dict[str, Values], columns: dict[str, Values],
    begins: Array, ends: Array,
) -> Iterator[tuple[Side, Array, Array]]:  # fmt: skip
    """Yield roles, positions of fresh rows and ids of the stored rows that they match.

    Fresh row ``n`` asks stored rows ``begins[n] … ends[n] - 1``. The last term is tested first:
    candidates come from the first one.
    """
    base = int(begins.min())
    stored = {name: column[base : int(ends.max())] for name, column in columns.items()}
    for role in roles:
        terms = query.terms_for(role)
        for rows, partners in candidates(query, terms, fresh, stored):
            for term in reversed(terms):
                kept = term.holds(fresh[term.column][rows], stored[term.column][partners])
                rows, partners = rows[kept], partners[kept]
            ids = partners + base
            kept = (ids >= begins[rows]) & (ids < ends[rows])
            yield role, rows[kept], ids[kept]
