"""A condition bound to columns: the keys of rows, and the boxes that fresh rows ask for.

``keys`` holds the keys of rows, ``fresh`` arriving rows with payload and places. ``box`` turns keys
into intervals of the other side's key, ``relative`` those of relative bands and ``prefixes`` those
of strings in order. ``rounding`` finds where IEEE arithmetic puts an edge, ``field`` is one key
column of an index, ``spans`` bound one by another, ``binding`` binds a predicate and a window to
two schemas, ``arrival`` orders rows by their ranks. The room imports ``condition``, ``data`` and
``window``.
"""
