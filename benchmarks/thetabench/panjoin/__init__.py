"""The experiments of the PanJoin paper: ``thetastream bench panjoin``.

One named experiment per figure of the paper's Section V, and a few for what the project itself must
reach. All contestants of a cell take turns in one process; every answer is compared with a
reference that uses no index.

- :mod:`figures` and :mod:`systems` say what is measured, in terms of :mod:`plan`;
- :mod:`load` makes the rows and the boxes, :mod:`reference` knows the right answers;
- :mod:`structures` makes the structures, :mod:`stock` fills them and keeps the filled ones;
- :mod:`trial` times insertion and probing, :mod:`slide` a window that moves, :mod:`phases` one
  whose traffic changes, :mod:`joins` a whole ``StreamJoin``; :mod:`splitters` follows the
  adjustment of splitters, which needs no clock;
- :mod:`run` lets the contestants take turns;
- :mod:`result` is a line of the result file, :mod:`score` what must be reached, :mod:`paper` all of
  it together, :mod:`plots` and :mod:`table` write pictures and tables.
"""
