"""Measures the constants of the cost model on this machine (``thetastream index calibrate``).

``trees`` times index-based window joins step by step, for the tables of the equations; ``batches``
times stream joins of every tactic and fits the prices of their steps. Both land in one file, which
``prices`` reads. The room uses the joins as a user would, and is imported by the command line only.
"""
