"""Which index for which terms, and at what cost.

``tactic`` is the user's choice and ``notation`` its text form; ``tactics/`` holds the registered
tactics. ``layout`` defines how keys are laid out in an index, ``selectivity`` samples the data,
``estimate`` prices a layout, ``learned`` corrects it by measured costs, ``choice`` decides,
``explanation`` says so; ``cost`` holds the equations of trees, ``machine`` describes this machine.
The room imports ``boxes``, ``index`` and ``prices``.
"""
