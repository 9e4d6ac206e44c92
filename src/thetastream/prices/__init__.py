"""What one step costs on this machine, in nanoseconds: the constants of the cost model.

``constants`` holds those of trees as tables by size, and the file that stores all constants;
``batches`` holds those of structures that take many rows at a time; ``yardstick`` measures the
factor that brings the defaults close to this machine. The equations that use them are in ``plan``,
the rules in ``index``; ``calibration`` measures them. The room imports only the location of the
cache.
"""
