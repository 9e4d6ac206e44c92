"""Arrow columns as keys, numbers and payload.

``batch`` checks batches and turns values into order-preserving int64 keys, ``order`` sorts keys,
``key_packing`` packs several columns into one key, ``evaluate`` computes expressions,
with ``functions``, ``casts``, a user's own functions (``custom``) and steps over ``values``.
``number_columns`` holds columns as numbers to aggregate, ``rows`` holds the payload of stored rows,
``byte_columns`` their strings, which it also compares, ``memory`` shares the memory of Arrow.
``frames`` reads the frames of other libraries, ``results`` is what a join returns. The room imports
the vocabulary and ``condition``.
"""
