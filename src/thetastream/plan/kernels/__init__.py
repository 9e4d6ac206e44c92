"""Loops over cells of a key domain."""
