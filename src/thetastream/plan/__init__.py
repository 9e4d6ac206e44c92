"""Which index for which terms, and at what cost.

``tactic`` is what a user asks for and ``notation`` its text form; ``tactics/`` holds the registered
tactics. ``layout`` says how keys lie in an index, ``selectivity`` samples the data, ``estimate``
says what a layout costs, ``learned`` what measured costs correct in it, ``choice`` decides and
explains; ``cost`` holds the equations of trees, ``machine`` what this machine is. The room imports
``boxes``, ``index`` and ``prices``.
"""
