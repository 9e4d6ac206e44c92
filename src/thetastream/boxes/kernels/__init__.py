"""Loops over intervals: make the arms of an OR disjoint."""
