"""What one step costs on this machine, in nanoseconds: the constants of the one cost model.

``constants`` holds those of the trees as tables by size, and the file that all are kept in;
``batches`` those of structures that take rows many at a time. Equations that use them stand in
``plan``, rules that use them in ``index``; ``calibration`` measures them. The room imports nothing
but the place of the cache.
"""
