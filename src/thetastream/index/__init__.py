"""Window indexes: the protocol, the registry, one structure per file."""

from __future__ import annotations

from thetastream.index import nested_loop, sorted_runs  # noqa: F401  (registers them)
from thetastream.index.base import Index, create, names, register, structure

__all__ = ["Index", "create", "names", "register", "structure"]
