"""The experiments of the PIM-Tree paper: ``thetastream bench pim``.

:mod:`paper` is the paper as a value, :mod:`figures` its figures; :mod:`stream` makes the tuples and
knows the right answers, :mod:`contestant` makes the joins, :mod:`ordered` those on ordered sets
from PyPI; :mod:`trial` times them, and :mod:`inserts` counts inserts without a join.
"""
