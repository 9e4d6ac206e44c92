"""Compiled loops: arrays in, arrays out, no Python objects, GIL released.

One family per file. ``_jit`` holds compile options and the cache.
"""

from __future__ import annotations

from thetastream.kernels import (  # noqa: F401
    arms,
    bisort,
    blockread,
    blocks,
    btree_rows,
    buffer_pool,
    burst,
    burst_changes,
    burst_rows,
    cells,
    crew,
    csb_rows,
    floats,
    fold,
    hashing,
    ibwj,
    judy,
    merge,
    mesh,
    pairs,
    permute,
    pojoin,
    readplan,
    relation_join,
    rows_in_trees,
    search,
    sweeping,
    term_rows,
    term_sets,
    trie,
    trie_drop,
    trie_find,
    trie_read,
    wib,
    zones,
)
from thetastream.kernels._jit import cache_folder, cache_root, prepare

__all__ = ["cache_folder", "cache_root", "prepare"]
