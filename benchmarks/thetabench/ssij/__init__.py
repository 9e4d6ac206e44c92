"""The experiments of the SSIJ paper: ``thetastream bench ssij``.

One named experiment per figure of the paper's Section VI, its Table III, and a few for what the
project itself must reach. Most figures are *cost-accounted*: a simulated disk and a simulated
processor tell the time, so a figure is the same on every machine; some are measured on the real
device too, without the page cache. Every answer is compared with a reference made by NumPy.

- :mod:`figures` and :mod:`sensitivity` say what is measured, in terms of :mod:`plan`,
  :mod:`shapes` has the sizes;
- :mod:`load` makes tables, streams and the right answers, :mod:`stock` keeps them and the
  relations built of them;
- :mod:`joins` makes the contestants, :mod:`drive` feeds one of them, :mod:`rates` finds what rate
  it sustains and what burst it bears, :mod:`trial` makes columns of that; :mod:`readplans` plans
  reads, :mod:`systems` asks the databases and Spark in :mod:`peers`, :mod:`run` makes lines of all;
- :mod:`result` is a line of the result file, :mod:`score` what must be reached, :mod:`remark` what
  figures show in a sentence, :mod:`paper` all of it together, :mod:`plots` and :mod:`table` write
  pictures and tables.
"""
