"""Structures that keep rows in key order, in place (Ordered Indexing, Sections 3 and 4).

``ordered_index`` is what they share: rows by key and id, expiry by sweeps, open answers.
``b_tree`` and ``csb_tree`` also share ``node_tree``; ``burst_trie`` and ``radix_trie`` are tries;
``trie_invariants`` checks the latter. Imports nothing from other families.
"""
