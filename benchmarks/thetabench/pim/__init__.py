"""The experiments of the PIM-Tree paper: ``thetastream bench pim``.

One named experiment per figure of the paper, and a few for what the project itself must reach. All
contestants of a cell join the same tuples, one by one, and take turns; every answer is compared
with a reference.

- :mod:`figures` says what is measured, in terms of :mod:`plan`; :mod:`stream` makes the tuples;
- :mod:`contestant` makes the joins, :mod:`ordered` those on ordered sets from PyPI;
- :mod:`run` lets them take turns and verifies, :mod:`reference` knows the right answers;
- :mod:`inserts` counts inserts per subindex (Figure 13a), which needs no join;
- :mod:`result` is the result file, :mod:`score` what must be reached, :mod:`plots` and :mod:`table`
  show both.
"""
