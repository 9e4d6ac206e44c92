"""Per-tuple join with ``sortedcontainers``, pure Python: a list of short sorted lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from thetabench.contestant import optional
from thetabench.peers.ordered import OrderedJoin
from thetabench.query import Query


class SortedListJoin(OrderedJoin):
    """A ``SortedList`` per side, or per cell of the second band."""

    name: ClassVar[str] = "sortedcontainers"
    packages: ClassVar[tuple[str, ...]] = ("sortedcontainers",)

    def __init__(self, query: Query, **options: str) -> None:
        super().__init__(query, **options)
        self._list = optional("sortedcontainers").SortedList

    def make(self, codes: list[int]) -> Any:
        return self._list(codes)

    def between(self, ordered: Any) -> Callable[[int, int], Iterable[int]]:
        scan: Callable[[int, int], Iterable[int]] = ordered.irange
        return scan
