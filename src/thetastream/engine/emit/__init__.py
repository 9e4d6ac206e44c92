"""What is returned for matches, one way per module. An emitter turns a probe into output parts.

``pairs`` writes rows of the output, or pairs of arrival numbers, for all join modes; ``counts`` and
``ranges`` write no pair; ``aggregates`` folds the matches of each left row (``summarizer``).
``base`` is the protocol, ``registry`` finds the emitter of a join. The room imports ``probe``,
``stream`` and ``query`` of the engine, and ``parts``.
"""
