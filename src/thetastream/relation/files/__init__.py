"""A relation as files.

``folder`` (names, locks, CURRENT), ``fences`` (the index in memory), ``generation``, ``journal``,
``splices`` and ``overlay`` (changes), ``snapshot`` (a pinned state). ``sources``,
``sorting`` and ``build`` write a generation from rows of any origin; ``scan`` reads all of one.
Imports ``disk`` and ``image``.
"""
