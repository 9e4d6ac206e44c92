"""Joins tuple by tuple, in arrival order (PIM-Tree paper, Sections 4 and 5).

``ibwj`` is the index-based window join on plain arrays, ``crew`` its threads, ``parallel`` the
public ``ParallelJoin``, ``calibration`` measures the constants of the cost model with it. The room
imports the engine and the trees.
"""
