"""Conditions on an end of an interval that may be open: NULL lies beyond all values.

    r.valid_to NULL      greater than every value     l.t <= r.valid_to holds, l.t > r.valid_to not
    r.valid_from NULL    less than every value        l.t >= r.valid_from holds

An open end is stored as the greatest (or least) int64, which no other row of the relation has. So a
condition either admits it, and its interval of keys is widened to that key, or not, and the
interval stops before it.
"""

from __future__ import annotations

import numpy as np

from thetastream._jit.arrays import LEAST, MOST, Array
from thetastream.condition.expression import Function
from thetastream.condition.term import Compare, Term, edges, exact
from thetastream.errors import PredicateError

Pieces = list[tuple[Array, Array]]


def admits(term: Term, upper: bool) -> bool:
    """Whether a term over the relation's column holds where that end is open.

    ``upper``: the column is ``hi``. PredicateError if this depends on the arm of an OR.
    """
    conditions = [condition for arm in term.arms for condition in arm]
    several = any(isinstance(c, Compare) and c.op is Function.NE for c in conditions)
    if len(term.arms) > 1 or several:
        raise PredicateError(
            f"{term}: {term.right} may be NULL, which is an open end here; compare it by <, <=, >, "
            ">=, = or BETWEEN, without OR and <>"
        )
    # An edge of left - right from below bounds right from above.
    bounded = {is_low for condition in conditions for _, is_low in edges(condition, exact)}
    return upper not in bounded


def opened(pieces: Pieces, admitted: bool, upper: bool) -> Pieces:
    """Intervals of stored keys, with or without the key of an open end."""
    if not admitted:
        return [(np.maximum(low, LEAST + 1), np.minimum(high, MOST - 1)) for low, high in pieces]
    if len(pieces) > 1:  # of floats: NaN is a piece of its own
        inner = opened(pieces, False, upper)
        end = np.full_like(inner[0][0], MOST if upper else LEAST)
        return [*inner, (end, end)]
    ((low, high),) = pieces
    empty = low > high
    if upper:
        return [(np.where(empty, MOST, low), np.full_like(high, MOST))]
    return [(np.full_like(low, LEAST), np.where(empty, LEAST, high))]
