"""The experiments of the SSIJ paper: ``thetastream bench ssij``.

Most figures are *cost-accounted*: the clock is that of a simulated disk and processor, so a
figure is the same on every machine. Some are measured on the real device, without the page cache.

:mod:`paper` is the paper as a value, :mod:`figures` its figures, put together from :mod:`cells`
and :mod:`contestant`; :mod:`load` makes tables, streams and the right answers, :mod:`stock` keeps
them and makes relations and joins of them; :mod:`drive` feeds a join, :mod:`rates` finds what rate
it sustains and what burst it bears; :mod:`trial`, :mod:`readplans` and :mod:`systems` (databases
and Spark, in :mod:`peers`) are the trials that :mod:`course` starts.
"""
