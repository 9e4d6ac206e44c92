"""Predicts the duration of a join phase, so that it starts early enough for a deadline.

The cost model of SSIJ, Section IV-F, maps the number of leaves to read to seconds. At first every
leaf counts as a random read, ``n × (S + T)``. Later the worst phase with a similar number of leaves
counts; *similar* means that the next lower power of two is the same::

    leaves      1     2-3     4-7    8-15   16-31  …
    worst    (1, 9ms)  –   (5, 31ms)  –       –        (leaves, seconds) of the worst phase

Seconds grow with the number of leaves, and seconds per leaf fall, because denser leaves need fewer
seeks. So a phase of ``m`` leaves in ``s`` seconds bounds one of ``n``: by ``s`` if ``n ≤ m``, and
by ``s × n / m`` otherwise. The model uses this inside a bucket, and to derive a bound for an empty
bucket from its neighbours. Without the latter, a join with a tight deadline would never try the
first phase of a larger size.

Recent phases count more: a phase better than the bound lowers it by part of the distance, a worse
one raises it at once. Invariant: an estimate is at least what the cheapest plan needs, one
seek and ``n`` transfers, with the margin on top. Every call is O(1); the memory is constant.
"""

from __future__ import annotations

from math import isfinite

# 2**40 leaves are more than any relation has.
_BUCKETS = 41


class CostModel:
    """Seconds of a join phase by the number of leaves it reads (SSIJ, Section IV-F).

    ``margin`` is the fraction added to every estimate; ``fade`` is the part of the distance by
    which a better phase lowers the bound.

    >>> model = CostModel(seek=0.01, transfer=0.001, margin=0.0)
    >>> round(model.estimate(100), 3)  # nothing seen: 100 random reads
    1.1
    >>> model.observe(100, 0.4)
    >>> round(model.estimate(100), 3), round(model.estimate(110), 3)
    (0.4, 0.44)
    """

    def __init__(
        self, seek: float, transfer: float, *, margin: float = 0.2, fade: float = 0.1
    ) -> None:
        good = seek >= 0.0 and transfer >= 0.0 and margin >= 0.0 and 0.0 < fade <= 1.0
        assert good, "costs and margin are not negative, 0 < fade ≤ 1"
        self.seek = seek
        self.transfer = transfer
        self._margin = 1.0 + margin
        self._fade = fade
        self._leaves = [0.0] * _BUCKETS  # 0: nothing was seen in the bucket
        self._seconds = [0.0] * _BUCKETS

    def estimate(self, blocks: float) -> float:
        """Estimate an upper bound in seconds of a phase that reads ``blocks`` leaves."""
        if blocks <= 0.0:
            return 0.0
        blocks = max(blocks, 1.0)
        least = self.seek + blocks * self.transfer
        return max(self._bound(blocks), least) * self._margin

    def observe(self, blocks: int, seconds: float) -> None:
        """Learn from a finished phase, unless it read nothing."""
        if blocks <= 0 or not isfinite(seconds):
            return
        at = _bucket(blocks)
        bound = self._scaled(at, blocks)
        if self._leaves[at] == 0.0 or seconds >= bound:
            self._leaves[at], self._seconds[at] = float(blocks), max(seconds, 0.0)
        elif bound > 0.0:
            better = 1.0 - max(seconds, 0.0) / bound
            self._seconds[at] *= 1.0 - self._fade * better

    def _bound(self, blocks: float) -> float:
        """The worst phase of this size, or a bound from the nearest buckets."""
        at = _bucket(blocks)
        if self._leaves[at]:
            return self._scaled(at, blocks)
        below = next((k for k in range(at - 1, -1, -1) if self._leaves[k]), -1)
        above = next((k for k in range(at + 1, _BUCKETS) if self._leaves[k]), -1)
        if below < 0 and above < 0:
            return blocks * (self.seek + self.transfer)
        return min(self._scaled(k, blocks) for k in (below, above) if k >= 0)

    def _scaled(self, at: int, blocks: float) -> float:
        """A bucket's worst phase, scaled up to ``blocks`` leaves, never down."""
        leaves = self._leaves[at]
        return self._seconds[at] * max(1.0, blocks / leaves) if leaves else 0.0


def _bucket(blocks: float) -> int:
    return min(int(blocks).bit_length() - 1, _BUCKETS - 1)
