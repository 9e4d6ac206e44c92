"""Loops of the radix-trie.

``arena`` (memory), ``nodes`` (forms), ``build``, ``insertion``, ``drop``, ``find`` and ``read``.
"""
