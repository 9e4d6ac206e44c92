"""The array types that kernels take and return, and the limits of a key."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.int64]
"""Keys, ids, positions, counts."""
Mask = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]
Floats = NDArray[np.float64]

LEAST, MOST = -(2**63), 2**63 - 1
"""The limits of int64, and so of a key."""
