"""The tactics, one per module: which layouts each offers, for which terms, over which structures.

``family`` is their interface, ``registry`` the list of their names. ``ordered``, ``hash``,
``cells`` and ``nested_loop`` are plain ways to lay out keys; ``ibwj``, ``panjoin`` and ``spo_join``
come from papers; ``auto`` compares all others. A new tactic is a module here and a line in the
registry. The room imports ``boxes``, ``index``, and the layouts and estimates of ``plan``.
"""
