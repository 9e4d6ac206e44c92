"""Window indexes: the protocol, the registry, one structure per file."""

from __future__ import annotations

from thetastream.index import (  # noqa: F401  (registers them)
    bi_sort,
    bi_sort_opencl,
    bplus_tree,
    chained,
    css_tree,
    im_tree,
    llat,
    nested_loop,
    optimistic_tree,
    pim_tree,
    rap_table,
    round_robin,
    sorted_runs,
    subwindows,
    wib_tree,
)
from thetastream.index.base import Index, create, names, register, structure

__all__ = ["Index", "create", "names", "register", "structure"]
