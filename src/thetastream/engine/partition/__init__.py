"""A join in several partitions.

``partition`` is the engine of one of them, ``routing`` decides which rows go where, ``deliveries``
lists them by partition.
"""
