"""BI-Sort's units on an OpenCL device. The only place that imports pyopencl, and only on first use.

``device``: finding one; ``units``: mergers, indexer, partitioners, probers; ``kernels.cl``: their
code in OpenCL C.
"""

from __future__ import annotations

from thetastream.index.subwindows.opencl.device import OpenclDevice, find
from thetastream.index.subwindows.opencl.units import MainArray

__all__ = ["MainArray", "OpenclDevice", "find"]
