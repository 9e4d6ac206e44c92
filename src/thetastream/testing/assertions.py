"""Comparing answers as multisets, with a small diff."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from thetastream.truth.oracle import read

Pair = tuple[int | None, int | None]
_SHOWN = 10


def assert_same_pairs(
    actual: Iterable[Pair],
    expected: Iterable[Pair],
    *,
    left: Any = None,
    right: Any = None,
    note: object = "",
) -> None:
    """Assert that both hold the same pairs of row numbers, each as often, in any order.

    ``left`` and ``right``, Arrow tables that the row numbers point into, make the diff show values.

    >>> assert_same_pairs([(0, 1), (2, None)], [(2, None), (0, 1)])
    >>> assert_same_pairs([(0, 1), (0, 1)], [(0, 1), (3, 4)])
    Traceback (most recent call last):
        ...
    AssertionError: expected 2 pairs, got 2: 1 missing, 1 extra
      missing  (3, 4)
      extra    (0, 1)
    """
    got, wanted = Counter(actual), Counter(expected)
    if got == wanted:
        return
    missing, extra = wanted - got, got - wanted
    rows = [None if table is None else read(table) for table in (left, right)]
    lines = [
        f"expected {wanted.total()} pairs, got {got.total()}: "
        f"{missing.total()} missing, {extra.total()} extra"
    ]
    for word, pairs in (("missing", missing), ("extra", extra)):
        lines += [f"  {word:8} {_shown(pair, rows)}" for pair in _first(pairs)]
        if pairs.total() > _SHOWN:
            lines.append(f"  {word:8} … and {pairs.total() - _SHOWN} more")
    if note:
        lines.append(str(note))
    raise AssertionError("\n".join(lines))


def _first(pairs: Counter[Pair]) -> list[Pair]:
    def rank(pair: Pair) -> tuple[tuple[bool, int], ...]:
        return tuple((number is None, number or 0) for number in pair)

    return sorted(pairs.elements(), key=rank)[:_SHOWN]


def _shown(pair: Pair, rows: Sequence[list[Any] | None]) -> str:
    parts = [str(pair)]
    for number, side, name in zip(pair, rows, ("left", "right"), strict=True):
        if side is not None and number is not None and number < len(side):
            values = ", ".join(f"{key}={value!r}" for key, value in side[number].items())
            parts.append(f"{name}: {values}")
    return "   ".join(parts)
