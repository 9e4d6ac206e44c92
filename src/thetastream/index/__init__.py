"""Window indexes: the protocol, the registry, one structure per file."""

from __future__ import annotations

from thetastream.index import (  # noqa: F401  (registers them)
    b_tree,
    bi_sort,
    bi_sort_opencl,
    bplus_tree,
    burst_trie,
    chained,
    csb_tree,
    css_tree,
    im_tree,
    incremental,
    judy,
    llat,
    nested_loop,
    optimistic_tree,
    per_term,
    pim_tree,
    po_join,
    ptwi,
    radix_trie,
    rap_table,
    round_robin,
    sorted_runs,
    split_join,
    spo_join,
    subwindows,
    wib_tree,
    zoned_runs,
)
from thetastream.index.base import Index, create, names, register, structure

__all__ = ["Index", "create", "names", "register", "structure"]
