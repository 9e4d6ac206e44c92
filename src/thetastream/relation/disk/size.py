"""Amounts of memory: parses text such as ``64 MB``, and formats bytes."""

from __future__ import annotations

import re
from fractions import Fraction

from thetastream.errors import OptionError

_UNITS = {"": 1, "b": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?i?)b?\s*", re.IGNORECASE)


def read_size(size: str | int) -> int:
    """Parse a number of bytes or text; units are decimal, ``MiB`` and the like binary.

    >>> read_size("64 MB"), read_size("1.5 GiB"), read_size(4096)
    (64000000, 1610612736, 4096)
    """
    if isinstance(size, int) and not isinstance(size, bool):
        if size > 0:
            return size
    elif isinstance(size, str) and (match := _SIZE.fullmatch(size)):
        unit = match.group(2).lower()
        factor = _UNITS.get(unit) or _BINARY.get(unit)
        if factor is not None and (count := int(Fraction(match.group(1)) * factor)) > 0:
            return count
    raise OptionError(
        f"expected an amount of memory such as '64 MB', '1.5 GiB' or a number of bytes; "
        f"got {size!r}"
    )


def show_size(count: float) -> str:
    """Bytes in readable form.

    >>> show_size(64_000_000), show_size(512), show_size(1_234_567)
    ('64 MB', '512 bytes', '1.23 MB')
    """
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= factor:
            return f"{count / factor:{'.3g' if count < 10 * factor else ',.0f'}} {unit}"
    return f"{count:.0f} bytes"
