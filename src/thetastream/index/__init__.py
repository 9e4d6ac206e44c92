"""Window indexes: the protocol, the registry, one structure per file."""

from __future__ import annotations

from thetastream.index import (  # noqa: F401  (registers them)
    bplus_tree,
    chained,
    css_tree,
    im_tree,
    nested_loop,
    optimistic_tree,
    pim_tree,
    round_robin,
    sorted_runs,
)
from thetastream.index.base import Index, create, names, register, structure

__all__ = ["Index", "create", "names", "register", "structure"]
