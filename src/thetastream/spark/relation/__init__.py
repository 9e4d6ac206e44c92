"""``relation_join`` on Spark.

``operator`` is the call, ``worker`` one join per worker process, ``types`` and ``report`` convert
and report.
"""
