"""Aggregates of matches instead of pairs.

``aggregating`` is the engine of such a join, ``summarizer`` folds what a probe finds.
"""
