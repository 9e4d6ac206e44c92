"""What is returned for matches, one way per module. An emitter turns a probe into output parts.

``pairs`` writes rows of the output, or pairs of arrival numbers, for all join modes; ``bounded``
writes counts and ranges, but no pair; ``aggregates`` folds the matches of each left row.
``base`` is the protocol. The room imports ``probe``,
``stream`` and ``query`` of the engine, and ``parts``.
"""
