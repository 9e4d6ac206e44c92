"""The experiments of the SPO-Join paper: ``thetastream bench spo``.

:mod:`paper` is the paper as a value, :mod:`figures` its figures, put together from
:mod:`contestant`; :mod:`load` makes rows and boxes, :mod:`stock` structures with full windows and
the right answers; :mod:`trial` times structures, :mod:`course` lets them enter, and whole joins.
"""
