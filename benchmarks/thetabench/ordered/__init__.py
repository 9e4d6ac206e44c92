"""The experiments of the Ordered Indexing paper: ``thetastream bench ordered``.

:mod:`paper` is the paper as a value, :mod:`figures` its figures, :mod:`summary` its Table 1 and
:mod:`code` the size of structures in it. :mod:`load` makes keys and knows the right answers;
:mod:`contestant` says what is timed, :mod:`course` what cells share. :mod:`growing` times indexes
that grow, :mod:`expiring` indexes that lose rows, :mod:`questions` Q1 and Q2, :mod:`matches`
aggregates over matches.
"""
