"""The steps of a push: from keys to result batches.

``engine`` orders the steps, ``query`` is what was asked, ``outside`` what comes with a push,
``stream`` the state of one side, ``planner`` keeps its index fitting, ``probe`` finds matches,
``collector`` gathers small pushes, ``report`` tells what was done. In folders: ``lifetime`` (who
waits, meets and leaves, by the kind of window), ``emit`` (what is returned for matches), ``output``
(batches of it), ``partition`` (one partition of several, and which rows go where). The room imports
``plan`` and everything below it.
"""
