"""Loops over the cells of a key domain, and over samples of rows."""
