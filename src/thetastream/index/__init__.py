"""Window indexes: the protocol, the registry, one structure per file."""

from __future__ import annotations

from thetabench.judy import structure as judy
from thetastream.index.base import Index, create, names, register, structure
from thetastream.index.ordered import b_tree, burst_trie, csb_tree, radix_trie
from thetastream.index.permuted import per_term, po_join, spo_join
from thetastream.index.runs import nested_loop, sorted_runs, split_join, zoned_runs
from thetastream.index.slotted import incremental, ptwi
from thetastream.index.subwindows import (
    bi_sort,
    bi_sort_opencl,
    llat,
    rap_table,
    subwindows,
    wib_tree,
)
from thetastream.index.trees import (
    bplus_tree,
    chained,
    css_tree,
    im_tree,
    optimistic_tree,
    pim_tree,
    round_robin,
)

__all__ = ["Index", "create", "names", "register", "structure"]
