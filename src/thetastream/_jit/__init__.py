"""Shared by all kernels: compile options, warm-up, the cache on disk, and extra instructions.

``compiling`` declares kernels and compiles them once, ``cache`` keeps them on disk, ``intrinsics``
and ``atomics`` add instructions that numba does not expose, ``arrays`` names the array types.
Outside folders called ``kernels``, only this room imports numba. It imports ``host`` only.
"""
