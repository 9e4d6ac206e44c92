"""The steps of a push: from keys to result batches.

``query`` is what was asked, ``stream`` the state of one side, ``planner`` keeps its index fitting,
``probe`` and ``matcher`` find matches, ``engine`` orders the steps, ``collect`` gathers small
pushes, ``report`` tells what was done. In folders: ``output`` (what is returned), ``aggregates``
(folds instead of pairs), ``partition`` (one partition of several, and which rows go where). The
room imports ``plan`` and everything above it.
"""
