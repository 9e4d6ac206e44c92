"""The Semi-Streamed Index Join.

``join`` is the public class; its ``engine`` owns the parts and runs the two phases over them
(``online``, ``joining``). ``matching`` knows what a row asks for, ``leaf_index`` of which leaves;
``arrivals``, ``waiting``, ``cache`` and ``workspace`` hold rows, blocks and room to work in, and
note it in ``memory``, the budget. ``pace`` says when a phase is due, ``answer`` makes rows,
``metrics`` and ``explanation`` tell. Imports all other rooms of relations.
"""
