"""Blocks on a disk.

``device`` reads them, ``clock`` and ``calibrate`` know what that costs, ``readplan`` finds the
cheapest sequences, ``reader`` follows a plan, ``size`` reads amounts of memory.
"""
