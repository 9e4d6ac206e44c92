"""A condition bound to columns: the keys of rows, and the boxes that fresh rows ask for.

``keys`` holds rows as numbers, ``fresh`` rows that arrive, with payload and places. ``box`` turns a
key into intervals of the other side's key, ``field`` is one key column of an index, ``binding``
ties a predicate and a window to two schemas, ``arrival`` puts rows in order of their ranks. The
room imports ``condition``, ``data`` and ``window``.
"""
