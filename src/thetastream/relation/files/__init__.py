"""A relation as files.

``folder`` (names, locks, CURRENT), ``fences`` (the index in memory), ``generation``, ``journal``,
``splices`` and ``overlay`` (changes), ``snapshot`` and ``opened`` (a pinned state). ``sources``,
``sorting`` and ``build`` make a generation of rows of any origin; ``scan`` reads one whole.
Imports ``disk`` and ``image``.
"""
