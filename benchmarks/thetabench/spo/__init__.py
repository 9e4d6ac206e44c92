"""The experiments of the SPO-Join paper: ``thetastream bench spo``.

:mod:`paper` is the paper as a value, :mod:`figures` its figures, put together from
:mod:`contestant`; :mod:`load` makes rows and boxes, :mod:`stock` structures with full windows,
:mod:`reference` knows the right answers; :mod:`trial` times structures, :mod:`joins` whole joins,
and :mod:`course` lets them enter.
"""
