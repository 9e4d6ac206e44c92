"""``thetastream bench finite``: joins of two finite tables, beside the peers in their best form.

``workloads`` generates the tables, ``peers`` runs one library on one workload, ``worker`` measures
it in a process of its own (time, peak memory, digest of the answer), ``course`` runs all and
compares the answers, ``report`` makes the table and the plot.
"""
