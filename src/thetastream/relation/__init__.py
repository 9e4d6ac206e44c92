"""A stream joined to a table on disk: SSIJ, the Semi-Streamed Index Join (Bornea et al.).

The table (*relation*) lies sorted by key in blocks of a fixed size; the first key of every block is
in memory. Stream rows are looked up in batches, answered from a cache of blocks where that is
possible, and wait otherwise until a read pays off for many of them.
"""
