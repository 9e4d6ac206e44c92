"""Which index for which terms, and at what cost.

``tactic`` says how the terms of a condition may be arranged, ``cells`` is one such way,
``selectivity`` samples the data, ``choice`` decides and explains; ``constants``, ``cost`` and
``machine`` are the cost model of the tree structures. The room imports ``boxes`` and ``index``.
"""
