"""NumPy nested loop: one vectorised scan of the stored rows per fresh row.

What a user writes without an index. A band is two comparisons with its edges: at 2^20 rows 1.0 ms,
where ``abs(stored - key) <= width`` takes 4.1 ms.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from thetabench.peers.window import WindowJoin
from thetabench.query import Op, Query, Term, Values
from thetastream.side import Side

_SECONDS_PER_TEST = 1e-9
_NOTHING = np.empty(0, dtype=np.int64)


class NumpyScan(WindowJoin):
    """Nested loop; the inner loop is NumPy."""

    name: ClassVar[str] = "numpy"
    packages: ClassVar[tuple[str, ...]] = ("numpy",)

    @classmethod
    def push_seconds(cls, query: Query, batch: int) -> float:
        return _SECONDS_PER_TEST * batch * query.window * len(query.terms)

    def match(self, side: Side, fresh: Any, stored: Side) -> tuple[Values, Values]:
        if not len(self._stored[stored]):
            return _NOTHING, _NOTHING
        with self._watch.phase("probe"):
            hits = list(self._hits(side, fresh, stored))
            counts = [len(ids) for ids in hits]
            return np.repeat(fresh["id"], counts), np.concatenate([*hits, _NOTHING])

    def _hits(self, side: Side, fresh: dict[str, Values], stored: Side) -> Iterator[Values]:
        """The ids of the stored rows that each fresh row matches."""
        window, rows = self._stored[stored], len(fresh["id"])
        tests = [
            _Test(term, fresh[term.column], window.view(term.column))
            for term in self._query.terms_for(side)
        ]
        start, end = 0, len(window)
        for row in range(rows):
            if self._query.self_join:
                end = len(window) - rows + row
                start = max(end - self._query.window, 0)
            mask = tests[0].mask(row, start, end)
            for test in tests[1:]:
                mask &= test.mask(row, start, end)
            yield np.flatnonzero(mask) + (window.start + start)


class _Test:
    """One term for a whole push, with the edges of bands computed beforehand."""

    def __init__(self, term: Term, keys: Values, stored: Values) -> None:
        self._term, self._keys, self._stored = term, keys, stored
        self._lows, self._highs = term.bounds(keys)

    def mask(self, row: int, start: int, end: int) -> Values:
        """Which stored rows of a slice one fresh row matches."""
        stored = self._stored[start:end]
        if self._term.op is Op.BAND:
            mask: Values = stored >= self._lows[row]
            mask &= stored <= self._highs[row]
            return mask
        return self._term.holds(self._keys[row], stored)
