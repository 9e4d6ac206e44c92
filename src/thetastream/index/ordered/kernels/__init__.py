"""Loops of the ordered structures, a folder each.

``btree``, ``csb``, ``burst``, ``trie``; ``lines`` is what the first two share.
"""
