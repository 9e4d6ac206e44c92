"""Loops of the b-tree: nodes, changes of one row, batches of rows."""
