"""Loops that all families share: folds over boxes, mappings, records of ranges."""
