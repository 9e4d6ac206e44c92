"""Measures the constants of the cost model on this machine (``thetastream index calibrate``).

``trees`` times index-based window joins step by step, for the tables of the equations; ``batches``
times stream joins of every tactic and fits the prices of their steps; ``measure`` does both and
writes the file that ``prices`` reads. The room uses joins; only the command line imports it.
"""
