"""Whole joins, thetastream's and its peers': Arrow in, Arrow out, push by push.

Pushes alternate between the sides; a self-join has one. Everything a join does is timed: keys,
sorting, probing, inserting, expiring, making results.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from thetabench.contestant import MissingPackage, Unavailable, parse_spec
from thetabench.digest import Digest, check_pairs, digest
from thetabench.feed import Feed
from thetabench.peers import create
from thetabench.reference import reference
from thetabench.spo.contestant import Contestant
from thetabench.spo.load import one_way, query_of, workload_of
from thetabench.spo.reference import pushed
from thetabench.spo.trial import Clocked
from thetastream.errors import DataError, PredicateError, RegistryError

_TIMED_ROWS = 1 << 20  # of a side, after the windows are full
_TIMED_PAIRS = 1 << 25
_TIMED_PUSHES = 1 << 12
_PUSHES = 4  # of each side, at least
_UNTIMED = 2  # pushes at the beginning


def feed_of(who: Contestant) -> Feed:
    """The rows of a join."""
    rows = min(_TIMED_ROWS, max(who.rows.after, who.window), int(_TIMED_PAIRS / who.rows.rate))
    pushes = min(_TIMED_PUSHES, max(_PUSHES, rows // who.batch))
    try:
        workload = workload_of(who.rows, pushes * who.batch)
    except DataError as error:
        raise Unavailable(str(error)) from None
    right = None if workload.right is None else workload.right.combine_chunks()
    left = workload.left.combine_chunks()
    return Feed(query_of(workload), who.batch, who.rows.window, left, right)


class Joining(Clocked):
    """Pushes, one side at a time; the first ones are not timed."""

    def __init__(self, who: Contestant, label: str, budget: float, feed: Feed) -> None:
        super().__init__(who, label, budget)
        self.feed = feed
        self.digests: list[Digest] = []
        try:
            self._join = create(_spec(who), feed.query)
            self._join.prefill(*feed.prefill())
        except (MissingPackage, RegistryError, PredicateError) as error:
            raise Unavailable(str(error)) from None
        while len(self.digests) < _UNTIMED and self.seconds < budget:
            self.step()
        self.restart()
        self.waits.clear()

    def step(self) -> bool:
        """Push one batch."""
        push, feed = len(self.digests), self.feed
        if push == feed.pushes:
            return False
        side, rows, before = feed.side(push), feed.rows(push), self.seconds
        answer = self.timed(lambda: self._join.push(side, rows))
        if self.who.batch == 1:
            self.waits.append(self.seconds - before)
        self.digests.append(_digest(answer, self.who.output))
        self.tuples += rows.num_rows
        self.pairs += self.digests[-1].matches
        return True

    def verify(self, right: Sequence[Digest]) -> None:
        """Compare the answers of all pushes."""
        for push, answer in enumerate(self.digests):
            whole = self.who.output == "rows"
            expected = right[push] if whole else Digest(right[push].matches, 0)
            check_pairs(self.name, push, answer, expected)
        self.checked = len(self.digests) * self.who.batch

    @property
    def nbytes(self) -> int:
        """Bytes of the indexes, where they are known."""
        return self._join.index_bytes()


def truths(feed: Feed, pushes: int) -> list[Digest]:
    """The right answers of the first pushes."""
    return (pushed if one_way(feed.query) else reference)(feed, pushes)


def _spec(who: Contestant) -> str:
    """The contestant as a peer, with its options."""
    name, options = parse_spec(who.structure)
    options |= {word: str(value) for word, value in who.parameters}
    if name == "thetastream":
        options["output"] = who.output
    return f"{name}:{','.join(f'{word}={value}' for word, value in options.items())}"


def _digest(answer: pa.Table, output: str) -> Digest:
    if output == "rows":
        return digest(answer)
    return Digest(int(np.sum(answer.column("matches").to_numpy())), 0)
