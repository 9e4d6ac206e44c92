"""libJudy as a window index, to compare with (Ordered Indexing, Section 6)."""

from __future__ import annotations

from thetastream.index import names, register


def add() -> None:
    """Add ``judy`` to the structures of this process. Idempotent."""
    if "judy" not in names():
        from thetabench.judy.structure import Judy

        register(Judy)
