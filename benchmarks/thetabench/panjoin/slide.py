"""A window that moves: boxes are asked, rows inserted, old ones expire, batch after batch."""

from __future__ import annotations

from thetabench.digest import Digest
from thetabench.panjoin.load import boxes_of, rows_of
from thetabench.panjoin.plan import Contestant
from thetabench.panjoin.reference import Truth, check_pairs
from thetabench.panjoin.stock import Stock
from thetabench.panjoin.trial import Trial

__all__ = ["Sliding"]

_STEPS = 24  # batches that there are rows for


class Sliding(Trial):
    """One side of a join on a single structure: probe, insert, expire."""

    def __init__(self, who: Contestant, label: str, stock: Stock, seed: int) -> None:
        super().__init__(who, label)
        self._stock = stock
        rows = rows_of(who, seed, extra=_STEPS * who.batch)
        self._asked = boxes_of(who, rows)
        self._held = stock.fresh(who, rows)
        self._held.fill(who.rows)

    def step(self) -> bool:
        """Move on by one batch."""
        held, who, structure = self._held, self.who, self._held.structure
        if self.steps == _STEPS:
            return False
        start = held.count - who.rows
        lows, highs = held.load.asked(self._asked, self.steps)
        keys, ids = held.load.sorted_batch(held.count, held.count + who.batch)
        found = self.read(lambda: structure.probe(lows, highs))
        self.timed(lambda: structure.insert(keys, ids))
        self.timed(lambda: structure.expire(start + who.batch))
        held.count += who.batch

        def right() -> Digest:
            window = held.load.keys[start : start + who.rows]
            return Truth(window, start).digest(lows, highs)[1]

        check_pairs(
            self.name, self.steps, found, self._stock.digest(self._asked, self.steps, right)
        )
        self.tuples += who.batch
        self.pairs += found.matches
        self.checked += who.batch
        return True

    @property
    def nbytes(self) -> int:
        """Bytes of the window."""
        return self._held.nbytes
