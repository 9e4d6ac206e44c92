"""The Semi-Streamed Index Join.

``join`` is the public class; its ``engine`` owns the parts and runs the two phases over them
(``online``, ``joining``). ``matching`` turns rows into boxes of keys, ``leaf_index`` finds their
leaves; ``arrivals``, ``waiting``, ``cache`` and ``workspace`` hold rows, blocks and working memory,
and record it in ``memory``, the budget. ``pace`` decides when a phase is due, ``answer`` builds
rows, ``metrics`` and ``explanation`` report. Imports all other rooms of relations.
"""
