"""Loops over keys and payload: exact edges of float arithmetic, hashes, pairs, gathers."""
