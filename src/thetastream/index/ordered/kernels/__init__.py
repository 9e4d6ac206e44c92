"""Loops of the ordered structures: ``btree`` and ``csb`` share ``lines``; ``burst``, ``trie``."""
