"""Rows in sorted runs, and rows in no order at all.

``sorted_runs`` is the default index: runs of geometric sizes, merged now and then; ``run`` is one
of them, ``zoned_runs`` adds zone maps for several key columns, ``held`` caches values to aggregate
in key order. ``nested_loop`` and ``split_join`` test every row. Imports no other family.
"""
