"""Loops of the csb+tree: groups of nodes, changes of one row, batches of rows."""
