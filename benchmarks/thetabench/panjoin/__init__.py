"""The experiments of the PanJoin paper: ``thetastream bench panjoin``.

:mod:`paper` is the paper as a value, :mod:`figures` its figures; :mod:`contestant` says who does
what and makes the structures, :mod:`stock` makes rows and boxes and keeps filled structures.
:mod:`trial` times insertion, probing and a window that moves, :mod:`phases` one whose traffic
changes; :mod:`splitters` follows the adjustment of splitters, which needs no clock. :mod:`course`
lets all of them enter, and whole joins.
"""
