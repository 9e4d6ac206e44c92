"""Loops over trees.

``forest`` (B⁺-trees), ``css`` (sorted runs with a directory), ``store`` (both together, as one
index), ``optimistic`` (lock-free descents), ``rows_in_trees`` (the kernels that Python calls).
"""
