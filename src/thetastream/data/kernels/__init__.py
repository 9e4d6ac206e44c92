"""Loops over keys and payload.

Float arithmetic that rounds as SQL does, hashes, pairs, gathers.
"""
