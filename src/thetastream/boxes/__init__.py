"""A condition bound to columns: the keys of rows, and the boxes that fresh rows ask for.

``keys`` holds the keys of rows, ``fresh`` arriving rows with payload and places. ``box`` turns keys
into intervals of the other side's key, those of a ``relative`` band too, ``rounding`` finds where
IEEE arithmetic puts an edge, ``field`` is one key column of an index, ``spans`` bound one by
another, ``binding`` binds a predicate and a window to two schemas, ``arrival`` orders rows by their
ranks. The room imports ``condition``, ``data`` and ``window``.
"""
