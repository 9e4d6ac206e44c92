"""A join in several partitions.

``partition`` is the engine of one of them, ``routing`` decides which rows go where, ``ratio`` does
so for relative bands, ``scheme`` chooses among them, ``deliveries`` lists rows by partition.
"""
