"""A join in several partitions.

``partition`` is the engine of one of them. ``choice`` picks a scheme, ``routing`` and ``cells``
hold the schemes, which say which rows go where, and ``deliveries`` lists rows by partition.
"""
