"""SPO-Join: rows in the order of every term, with permutations between the orders.

``permuted`` is one immutable structure, ``po_join`` a list of them, ``spo_join`` the mutable part
and the list together. ``per_term`` keeps an index per term and intersects their rows (``terms``,
``term_reader``, ``present``). Uses the trees.
"""
