"""``theta_join`` of a stream and a static DataFrame.

``operator`` checks, ships the table and builds the plan; ``worker`` is what Spark calls: it indexes
the table once per process and joins every row that comes.
"""
