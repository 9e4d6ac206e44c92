"""Loops of the radix-trie: memory (``arena``), forms (``nodes``), changes, look-up and reading."""
