"""Structures that keep rows in key order, in place (Ordered Indexing, Sections 3 and 4).

``ordered_index`` is what they share: rows by key and id, expiry by sweeps, open answers.
``b_tree``, ``csb_tree``, ``burst_trie`` and ``radix_trie`` add their kernels; ``trie_invariants``
checks the last. Imports nothing of other families.
"""
