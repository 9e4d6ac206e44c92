"""Loops over intervals: the arms of an OR made disjoint."""
