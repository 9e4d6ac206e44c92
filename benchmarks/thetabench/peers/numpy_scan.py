"""NumPy nested loop: one vectorised scan of the stored rows per fresh row.

What a user writes without an index. A band is two comparisons with its edges: at 2^20 rows 1.0 ms,
where ``abs(stored - key) <= width`` takes 4.1 ms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa

from thetabench.contestant import Stopwatch, pairs, self_pairs
from thetabench.peers.sliding import SlidingColumns, columns_of
from thetabench.query import Op, Query, Term, Values
from thetastream.side import Side

_SECONDS_PER_TEST = 1e-9


class NumpyScan:
    """Nested loop; the inner loop is NumPy."""

    name: ClassVar[str] = "numpy"
    packages: ClassVar[tuple[str, ...]] = ("numpy",)

    def __init__(self, query: Query, **options: str) -> None:
        assert not options, f"numpy takes no options; got {options}"
        self._query = query
        self._stored = {side: SlidingColumns(query.window) for side in Side}
        self._watch = Stopwatch()

    @classmethod
    def supports(cls, query: Query) -> bool:
        return True

    @classmethod
    def push_seconds(cls, query: Query, batch: int) -> float:
        return _SECONDS_PER_TEST * batch * query.window * len(query.terms)

    def prefill(self, left: pa.Table, right: pa.Table | None) -> None:
        self._stored[Side.LEFT].append(columns_of(left))
        if right is not None:
            self._stored[Side.RIGHT].append(columns_of(right))
        for window in self._stored.values():
            window.expire()

    def push(self, side: Side, rows: pa.RecordBatch) -> pa.Table:
        fresh = columns_of(rows)
        if self._query.self_join:
            return self._push_self(fresh)
        own, other = self._stored[side], self._stored[side.other]
        with self._watch.phase("probe"):
            found = self._scan(side, fresh, other, [(0, len(other))] * rows.num_rows)
        with self._watch.phase("insert"):
            own.append(fresh)
            own.expire()
        return pairs(side, *found)

    def _push_self(self, fresh: dict[str, Values]) -> pa.Table:
        stored, window = self._stored[Side.LEFT], self._query.window
        with self._watch.phase("insert"):
            before = len(stored)
            stored.append(fresh)
        with self._watch.phase("probe"):
            ends = range(before, len(stored))
            found = self._scan(
                Side.LEFT, fresh, stored, [(max(end - window, 0), end) for end in ends]
            )
        with self._watch.phase("expire"):
            stored.expire()
        return self_pairs(*found)

    def _scan(
        self,
        side: Side,
        fresh: dict[str, Values],
        stored: SlidingColumns,
        spans: list[tuple[int, int]],
    ) -> tuple[Values, Values]:
        """Give the ids of matching fresh and stored rows; a span is the slice a fresh row sees."""
        hits = [np.empty(0, dtype=np.int64)] * len(spans)
        if len(stored):
            tests = [_Test(term, fresh, stored) for term in self._query.terms_for(side)]
            for row, (start, end) in enumerate(spans):
                mask = tests[0].mask(row, start, end)
                for test in tests[1:]:
                    mask &= test.mask(row, start, end)
                hits[row] = np.flatnonzero(mask) + (stored.start + start)
        counts = [len(found) for found in hits]
        return np.repeat(fresh["id"], counts), np.concatenate([*hits, np.empty(0, np.int64)])

    def phases(self) -> Mapping[str, float]:
        return self._watch.seconds

    def index_bytes(self) -> int:
        return 0


class _Test:
    """One term for a whole push, with the edges of bands computed beforehand."""

    def __init__(self, term: Term, fresh: dict[str, Values], stored: SlidingColumns) -> None:
        self._term = term
        self._keys = fresh[term.column]
        self._stored = stored.view(term.column)
        self._lows, self._highs = term.bounds(self._keys)

    def mask(self, row: int, start: int, end: int) -> Values:
        """Say which stored rows of a slice one fresh row matches."""
        stored = self._stored[start:end]
        if self._term.op is Op.BAND:
            mask: Values = stored >= self._lows[row]
            mask &= stored <= self._highs[row]
            return mask
        return self._term.holds(self._keys[row], stored)
