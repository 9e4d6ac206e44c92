"""The benchmark of the Spark operator: ``thetastream bench spark``.

Every contestant runs in a process and a Spark session of its own, over the same Parquet files, and
the answer of every micro-batch is compared with a reference.

- :mod:`plan` says what is measured, :mod:`feed` makes the files;
- :mod:`launch` starts a contestant, :mod:`run` drives them, :mod:`reference` has the right answers;
- :mod:`pipelines` and :mod:`relation` (for the SSIJ paper) run in that process: they are given a
  :mod:`job`; :mod:`peers` are the contestants themselves;
- :mod:`lines` is the result file, :mod:`goals` what the operator must reach; :mod:`table` and
  :mod:`plots` show both.
"""
