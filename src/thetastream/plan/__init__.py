"""Which index for which terms, and at what cost.

``tactic`` is what a user asks for and ``notation`` its text form; ``tactics/`` holds the registered
tactics. ``layout`` says how keys lie in an index, ``selectivity`` samples the data, ``estimate``
prices a layout, ``choice`` decides and explains; ``constants``, ``cost`` and ``machine`` are the
cost model of the tree structures. The room imports ``boxes`` and ``index``.
"""
