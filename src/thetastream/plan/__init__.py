"""Which index for which terms, and at what cost.

``tactic`` is what a user asks for and ``notation`` its text form; ``tactics/`` holds the registered
tactics. ``layout`` says how keys lie in an index, ``selectivity`` samples the data, ``estimate``
says what a layout costs, ``choice`` decides and explains; ``cost`` holds the equations of the tree
structures. The room imports ``boxes``, ``index`` and ``prices``.
"""
