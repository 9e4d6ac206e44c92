"""The oracles: plain nested loops that decide what every join must return.

``oracle`` lists the pairs and rows of a join, ``sessions`` numbers its sessions, ``moments`` are
times as whole nanoseconds, and ``aggregate_oracle`` lists the rows of a join with aggregates. The
room imports the vocabulary and ``condition``, and never a kernel or an index, not even indirectly.
"""
