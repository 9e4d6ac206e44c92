"""Amounts of memory."""

from __future__ import annotations

from typing import Any

import pytest

from thetastream.errors import OptionError
from thetastream.relation.disk.size import read_size, show_size


@pytest.mark.parametrize(
    ("text", "count"),
    [("64 MB", 64_000_000), ("64mb", 64_000_000), ("1KiB", 1024), ("0.5 G", 500_000_000), (7, 7)],
)
def test_sizes(text: str | int, count: int) -> None:
    assert read_size(text) == count


@pytest.mark.parametrize("wrong", ["", "many", "-1 MB", "0 MB", 0, -5, True, 1.5, "64 MX", None])
def test_what_is_no_size(wrong: Any) -> None:
    with pytest.raises(OptionError, match="such as '64 MB'"):
        read_size(wrong)


def test_shown() -> None:
    assert [show_size(n) for n in (0, 999, 12_345, 64_000_000, 3.2e12)] == [
        *("0 bytes", "999 bytes", "12 kB", "64 MB", "3.2 TB")
    ]
