"""A condition bound to columns: the keys of rows, and the boxes that fresh rows ask for.

``box`` turns a key into intervals of the other side's key, ``fresh`` holds arriving rows as keys,
``field`` is one key column of an index, ``binding`` ties a predicate and a window to two schemas,
``arrival`` puts rows in order of their ranks. The room imports ``condition`` and ``data``.
"""
