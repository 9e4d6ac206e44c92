"""Window indexes: the protocol, the registry, and a folder per family of structures.

``base`` says what an index can do, ``registry`` lists those that exist, ``folding`` and ``mapper``
aggregate key ranges, ``question`` and ``beside`` are shared by structures that change in place,
``threads`` by those that deal work out. Each family has its classes and, in its folder ``kernels``,
its loops:

    runs        sorted arrays of geometric sizes (the default), zone maps, nested loops
    trees       B⁺-trees and PIM-Tree (PIM-Tree paper); built on kernels of ``runs``
    subwindows  PanJoin: windows cut by arrival, and what is inside a piece; on ``runs``, ``trees``
    permuted    SPO-Join: permutations between the orders of two terms; on ``trees``
    ordered     tries and B-trees with mappers (Ordered Indexing)
    slotted     PTWI: any structure, cut by time; on ``ordered``

The room imports the vocabulary and ``data``. Importing it loads no structure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from thetastream.index.registry import create, names, register, structure

if TYPE_CHECKING:
    from thetastream.index.base import Index

__all__ = ["Index", "create", "names", "register", "structure"]


def __getattr__(name: str) -> Any:
    if name != "Index":
        raise AttributeError(f"module 'thetastream.index' has no attribute {name!r}")
    from thetastream.index.base import Index

    return Index
