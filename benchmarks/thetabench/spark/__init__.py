"""The benchmark of the Spark operator: ``thetastream bench spark``.

The contestants of a figure are queries of one Spark session. Each processes its next micro-batch in
turn, over its own copy of the same files, so that a slow moment of the machine hits all of them.
The answer of every micro-batch is compared with a reference.

- :mod:`cells` says what is measured, :mod:`paper` how it is shown and what it must reach;
- :mod:`feed` makes the files, :mod:`reference` the right answers;
- :mod:`course` runs the figures, :mod:`trial` is a contestant at work;
- :mod:`session` starts a process with a Spark session, in which :mod:`worker` runs the queries of
  :mod:`peers`; :mod:`eventlog` reads what Spark wrote about them;
- :mod:`attach` measures steps of the join without Spark;
- :mod:`first_steps` measures a stream with a table, and many shuffle partitions, on its own;
- :mod:`relation` is for the SSIJ paper; it shares :mod:`job` and :mod:`session`.
"""
