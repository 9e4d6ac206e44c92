"""Per-tuple join with ``BTrees``, the fastest ordered container on PyPI (written in C).

``LLTreeSet`` holds 64-bit integers without boxing them. ``keys(low, high)`` walks the leaves in C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from thetabench.contestant import optional
from thetabench.peers.ordered import OrderedJoin
from thetabench.query import Query


class BTreesJoin(OrderedJoin):
    """A B-tree per side, or per cell of the second band."""

    name: ClassVar[str] = "btrees"
    packages: ClassVar[tuple[str, ...]] = ("BTrees",)

    def __init__(self, query: Query, **options: str) -> None:
        super().__init__(query, **options)
        self._tree = optional("BTrees.LLBTree").LLTreeSet

    def make(self, codes: list[int]) -> Any:
        return self._tree(codes)

    def between(self, ordered: Any) -> Callable[[int, int], Iterable[int]]:
        scan: Callable[[int, int], Iterable[int]] = ordered.keys
        return scan
