"""What every kernel is made with: compile options, warm-up, the cache on disk, and instructions.

``compiling`` declares kernels and compiles them once, ``cache`` keeps them on disk, ``intrinsics``
and ``atomics`` are instructions that numba has no name for, ``arrays`` names the kinds of arrays.
Outside the folders called ``kernels`` nothing else imports numba. The room imports nothing of the
library.
"""
