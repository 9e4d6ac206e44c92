"""Loops over sorted runs: search by router, merge, zone maps, ranges, and the plain scan."""
