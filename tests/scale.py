"""How many examples a property is tried on: all of them, or few in ``make test``."""

from __future__ import annotations

from hypothesis import settings

__all__ = ["SHARE", "scaled"]

SHARE = settings.default.max_examples / 60 if settings.default else 1.0
"""Examples of the chosen profile, for each of the full one."""


def scaled(examples: int) -> int:
    """So many in the full profile, and as many fewer in others.

    >>> scaled(0)
    1
    """
    return max(1, round(examples * SHARE))
