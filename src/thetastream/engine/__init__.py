"""The steps of a push: from keys to result batches.

``engine`` orders the steps, ``query`` is what was asked, ``outside`` what comes with a push,
``stream`` the state of one side, ``planner`` keeps its indexes suited to the traffic, ``probe``
finds matches, ``single_key`` knows when one key column decides every pair, ``collector`` gathers
small pushes, ``report`` describes what was done, ``costs`` what a condition will cost. In folders:
``lifetime`` (who waits, meets and leaves, by the kind of window), ``emit`` (what is returned for
matches), ``parts`` (the parts of the output that a push returns), ``partition`` (one partition of
several, and which rows go where). The room imports ``plan`` and everything below it.
"""
