"""Things that take long to make, kept until there are too many bytes of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Shelf(Generic[T]):
    """Things by key with their bytes; those unused for the longest go when there are too many."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._held: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], T], size: Callable[[T], int]) -> T:
        """What is there, or what is made now."""
        if key not in self._held:
            made = make()
            self._held[key] = made, size(made)
            self._trim()
            return made
        self._held.move_to_end(key)
        return self._held[key][0]

    def peek(self, key: Hashable) -> T | None:
        """What is there, or None."""
        return self._held[key][0] if key in self._held else None

    def weigh(self, key: Hashable, size: int) -> None:
        """Something has become larger."""
        self._held[key] = self._held[key][0], size
        self._trim()

    def drop(self, key: Hashable) -> None:
        """Forget something."""
        del self._held[key]

    def clear(self) -> None:
        """Forget everything."""
        self._held.clear()

    def _trim(self) -> None:
        while len(self._held) > 1 and sum(size for _, size in self._held.values()) > self._room:
            self._held.popitem(last=False)
