"""``theta_join``.

``operator`` checks and plans, ``pipeline`` builds the plan in Spark's operators, ``spec`` is what
travels to workers, ``worker`` is what Spark calls, ``packing`` makes packets per partition,
``step`` runs one micro-batch of one partition, ``explanation`` describes a join.
"""
