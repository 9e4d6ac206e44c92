"""The experiments of the Ordered Indexing paper: ``thetastream bench ordered``.

One named experiment per figure of the paper's Section 4, and a few for what the project itself must
reach. All contestants of a cell take turns in one process; every answer is compared with a
reference that uses none of the structures.

- :mod:`figures` says what is measured, in terms of :mod:`plan`;
- :mod:`load` makes keys and knows the right answers, :mod:`minutes` makes minutes of reports,
  :mod:`stock` keeps them and the structures that grow;
- :mod:`growing` times insertion, look-ups and range searches of growing indexes, :mod:`deleting`
  emptying them, :mod:`windows` windows that move, :mod:`questions` Q1 and Q2, :mod:`matches`
  aggregates over matches; :mod:`race` lets contestants take turns, :mod:`run` makes lines of it;
- :mod:`result` is a line of the result file, :mod:`score` what must be reached, :mod:`summary`
  Table 1 and :mod:`code` the size of structures in it, :mod:`remark` what figures show in a
  sentence, :mod:`paper` all of it together, :mod:`plots` and :mod:`table` write pictures and
  tables.
"""
