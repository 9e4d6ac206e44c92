"""Arrow columns as keys, numbers and payload.

``batch`` checks batches and turns values into order-preserving int64 keys, ``order`` sorts keys,
``key_packing`` puts several columns into one key, ``evaluate`` computes expressions, ``measure``
and ``values`` hold columns as numbers to aggregate, ``rows`` keeps the payload of stored rows. The
room imports the vocabulary and ``condition``.
"""
