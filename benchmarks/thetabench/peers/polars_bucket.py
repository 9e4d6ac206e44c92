"""Polars, bucket form: an equi-join on hand-made buckets, then the exact conditions.

Not asked for by most comparisons, but the fastest thing one can write with Polars for a band.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import Any, ClassVar

import numpy as np

from thetabench.peers.polars_window import BUCKET, PolarsWindow
from thetabench.query import Query, Term, Values
from thetastream.side import Side


class PolarsBucket(PolarsWindow):
    """Equi-join on buckets, then the exact conditions; the same buckets as in the DuckDB form."""

    name: ClassVar[str] = "polars-bucket"

    @classmethod
    def supports(cls, query: Query) -> bool:
        """Say whether there is a band: an inequality alone has no buckets."""
        return bool(query.bands)

    def added(self, fresh: dict[str, Values]) -> dict[str, Values]:
        parts = [fresh[band.column] // (2 * band.width + 1) for band in self._query.bands[:2]]
        if len(parts) == 1:
            return {BUCKET: parts[0].astype(np.int32)}
        return {BUCKET: (parts[0] * (1 << 32) + parts[1]).astype(np.int64)}

    def matches(self, side: Side, fresh: Any, stored: Any) -> Any:
        conditions = [self.condition(term) for term in self._query.terms_for(side)]
        conditions += self.window_conditions()
        joined = stored.join(self._repeated(fresh), on=BUCKET)
        return joined.filter(reduce(and_, conditions))

    def _repeated(self, fresh: Any) -> Any:
        """Repeat fresh rows for the one or two buckets per band that they touch."""
        pl, col = self._pl, self._pl.col
        names = []
        for place, band in enumerate(self._query.bands[:2]):
            first, last = f"first_{place}", f"last_{place}"
            fresh = fresh.with_columns(
                self._bucket(band, -band.width).alias(first),
                self._bucket(band, band.width).alias(last),
            )
            twice = fresh.filter(col(first) != col(last)).with_columns(col(last).alias(first))
            fresh = pl.concat([fresh, twice])
            names.append(first)
        return fresh.with_columns(self._packed([col(name) for name in names]))

    def _bucket(self, band: Term, offset: float) -> Any:
        """Give the bucket of a key moved by an offset."""
        width = 2 * band.width + 1
        return ((self._pl.col(band.column) + offset) // width).cast(self._pl.Int64)

    def _packed(self, buckets: list[Any]) -> Any:
        """Pack one bucket as a 32-bit integer, or two as one 64-bit integer."""
        if len(buckets) == 1:
            return buckets[0].cast(self._pl.Int32).alias(BUCKET)
        return (buckets[0] * (1 << 32) + buckets[1]).alias(BUCKET)
