"""Compile options, the cache of compiled kernels and atomics; what every kernel is made with."""

from __future__ import annotations

from thetastream._jit.compiling import cache_folder, cache_root, prepare

__all__ = ["cache_folder", "cache_root", "prepare"]
