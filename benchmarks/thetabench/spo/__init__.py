"""The experiments of the SPO-Join paper: ``thetastream bench spo``.

One named experiment per figure of the paper's Section 5 that makes sense on two cores, and a few
for what the project itself must reach. All contestants of a cell take turns in one process; every
answer is compared with a reference that uses none of the structures.

- :mod:`parts`, :mod:`rivals` and :mod:`systems` say what is measured, in terms of :mod:`plan`,
  :mod:`figures` puts them together;
- :mod:`load` makes the rows and the boxes, :mod:`reference` knows the right answers;
- :mod:`stock` makes structures, fills them and keeps the filled ones;
- :mod:`trial` times rows that ask a full window or a growing part, :mod:`moving` windows that move
  and merge, :mod:`joins` whole joins, thetastream's and its peers';
- :mod:`run` lets the contestants take turns;
- :mod:`result` is a line of the result file, :mod:`score` what must be reached, :mod:`paper` all of
  it together, :mod:`plots` and :mod:`table` write pictures and tables.
"""
