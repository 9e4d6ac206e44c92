"""The query of ``thetastream demo``: trades and quotes, joined by price on Spark, and checked.

``session`` starts Spark, ``streams`` writes and reads the files, ``query`` joins them and asks the
oracle, ``buckets`` is the join that people write by hand, ``tempo`` says how fast both are. The
room imports the operator, the data sets and the oracle.
"""
