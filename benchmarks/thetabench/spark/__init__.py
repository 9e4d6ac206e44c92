"""The benchmark of the Spark operator: ``thetastream bench spark``.

Every contestant runs in a process and a Spark session of its own, over the same Parquet files, and
the answer of every micro-batch is compared with a reference.

- :mod:`plan` says what is measured, :mod:`feed` makes the files;
- :mod:`launch` starts a contestant (``thetabench.spark.pipelines``), :mod:`run` drives them;
- :mod:`reference` knows the right answers;
- :mod:`result` is the result file, :mod:`score` what the operator must reach, :mod:`plots` draws.
"""
