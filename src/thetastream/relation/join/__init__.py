"""The Semi-Streamed Index Join.

``join`` is the public class, ``engine`` what its two phases (``online``, ``joining``) share.
``matching`` knows what a row asks for, ``arrivals``, ``waiting``, ``cache`` and ``memory`` hold
rows and blocks within the budget, ``urgency`` watches deadlines, ``answer`` makes rows,
``metrics`` and ``explanation`` tell. Imports all other rooms of relations.
"""
