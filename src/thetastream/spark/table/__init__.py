"""``theta_join`` of a stream and a static DataFrame.

``operator`` checks, ships the table and builds the plan; ``worker`` is what Spark calls: it indexes
the table once per process and joins every row that comes. ``on_disk`` makes a relation of a table
that is larger than ``memory=``.
"""
