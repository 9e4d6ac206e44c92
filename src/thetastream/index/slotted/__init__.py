"""PTWI: a window cut by time into slots, each with an index (Ordered Indexing, Section 5).

``circular`` is the array of slots, ``slotted`` probes several of them, ``ptwi`` is the structure,
``disposal`` frees what it drops. ``incremental`` is the alternative that deletes row by row. Uses
``ordered``.
"""
