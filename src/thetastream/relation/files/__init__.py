"""A relation as files.

``folder`` (names, locks, CURRENT), ``fences`` (the index in memory), ``generation``, ``journal``,
``splices`` and ``overlay`` (changes), ``snapshot`` (a pinned state). ``sources``,
``sampling``, ``refusals`` (rows that are not taken), ``unique`` (keys by value), ``sorting`` and
``build`` write a generation from rows of any origin; ``scan`` reads all of one, ``intervals``
counts its intervals. Imports ``disk`` and ``image``.
"""
