"""Rows as columns of values, as key columns of an index, and as the boxes they ask for.

Rows of a self-join ask in both roles, unless the predicate holds both ways. The boxes of some rows
are those of all of them in the first role, then those in the second.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from thetabench.arrays import Array
from thetabench.query import Op, Query, Term, Values
from thetabench.spo.contestant import TAXI, Rows
from thetastream.data.batch import float_keys
from thetastream.datasets.queries import QUERIES, taxi_q2, taxi_q3
from thetastream.datasets.workloads import WORKLOADS, Workload
from thetastream.side import Side

_REAL = {"Q2": taxi_q2, "Q3": taxi_q3}


class Load:
    """The rows of a query: ``stored`` ones go into the index, ``fresh`` ones ask."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        workload = workload_of(rows)
        self.query = query_of(workload)
        sides = (workload.left if workload.right is None else workload.right, workload.left)
        self.stored, self._asking = (
            {name: table[name].to_numpy() for name in self.query.columns} for table in sides
        )

    @property
    def roles(self) -> tuple[Side, ...]:
        """In which roles a fresh row asks."""
        return (Side.LEFT, Side.RIGHT) if one_way(self.query) else (Side.LEFT,)

    @cached_property
    def keys(self) -> Array:
        """The key columns of all stored rows."""
        return np.stack([keys_of(column) for column in self.stored.values()])

    def batch(self, start: int, stop: int) -> tuple[Array, Array]:
        """Keys and ids of stored rows ``start … stop - 1``."""
        return np.ascontiguousarray(self.keys[:, start:stop]), np.arange(start, stop)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        columns = [self.keys, *self.stored.values(), *self._asking.values()]
        return sum(int(column.nbytes) for column in columns)

    def fresh(self, start: int, stop: int) -> dict[str, Values]:
        """The columns of fresh rows ``start … stop - 1``, counted from the first full window on."""
        first = self.rows.window
        return {name: column[first + start : first + stop] for name, column in self._asking.items()}

    def intervals(self, start: int, stop: int) -> tuple[list[Values], list[Values]]:
        """The closed intervals of stored values that fresh rows ask for, per column."""
        fresh = self.fresh(start, stop)
        lows: list[Values] = []
        highs: list[Values] = []
        for terms in zip(*(self.query.terms_for(role) for role in self.roles), strict=True):
            low, high = zip(*(term.bounds(fresh[term.column]) for term in terms), strict=True)
            lows.append(np.concatenate(low))
            highs.append(np.concatenate(high))
        return lows, highs

    def boxes(self, start: int, stop: int) -> tuple[Array, Array]:
        """The same for the key columns of an index."""
        lows, highs = self.intervals(start, stop)
        return np.stack([keys_of(v) for v in lows]), np.stack([keys_of(v) for v in highs])


def workload_of(rows: Rows, extra: int = 0) -> Workload:
    """The join itself: as many rows of each side as fill the window, and those after."""
    count = rows.window + (extra or rows.after)
    if rows.source == TAXI:
        return _REAL[rows.query](rows.window, count)
    make = {**QUERIES, **WORKLOADS}[rows.query]
    more = {"share": rows.share} if rows.share else {}
    return make(rows.window, count, match_rate=rows.rate, seed=rows.seed, **more)


def query_of(workload: Workload) -> Query:
    """The terms as plain numbers; an equality is a band of width 0.

    A self-join may have inequalities here, if it is asked in both roles.
    """
    if workload.name == "Q1=":
        terms = tuple(Term(name, Op.BAND) for name in ("power", "cool"))
        return Query(workload.predicate, terms, workload.window)
    query = Query.parse(workload.predicate, workload.window)
    return replace(query, self_join=workload.self_join)


def one_way(query: Query) -> bool:
    """Whether this is a self-join whose predicate may hold one way only."""
    return query.self_join and any(term.op is not Op.BAND for term in query.terms)


def keys_of(values: Values) -> Array:
    """Integers in the same order.

    >>> keys_of(np.array([-np.inf, -1.5, -0.0, 0.0, 2.5])).argsort(kind="stable").tolist()
    [0, 1, 2, 3, 4]
    """
    if np.issubdtype(values.dtype, np.integer):
        return values.astype(np.int64)
    return float_keys(values)
