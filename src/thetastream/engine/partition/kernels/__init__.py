"""Loops over the target partitions of rows."""
