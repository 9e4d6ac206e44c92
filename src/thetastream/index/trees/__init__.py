"""B⁺-trees in flat arrays, and the PIM-Tree made of them (PIM-Tree paper, Sections 2 and 3).

``tree_index`` is their common window index; a structure only defines its parts (``Recipe``).
``pool`` owns the arrays and enlarges them, ``invariants`` checks them. ``bplus_tree``, ``chained``,
``css_tree``, ``im_tree``, ``pim_tree``, ``round_robin`` and ``optimistic_tree`` are the recipes.
The family uses the merge kernel of ``runs``.
"""
