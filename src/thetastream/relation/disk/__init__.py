"""Blocks on a disk.

``device`` reads them, ``clock`` and ``calibrate`` hold and measure the costs, ``readplan`` finds
the cheapest sequences, ``reader`` executes a plan, ``size`` parses amounts of memory.
"""
