"""Joins tuple by tuple, in arrival order (PIM-Tree paper, Sections 4 and 5).

``ibwj`` is the index-based window join on plain arrays, ``crew`` its threads, ``parallel`` the
public ``ParallelJoin``, ``meeting`` what happens in its pushes. Imports the engine and the trees.
"""
