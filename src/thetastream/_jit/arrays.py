"""The array types that kernels take and return, and the limits of a key."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.int64]
"""Keys, ids, positions, counts."""
Mask = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]
Floats = NDArray[np.float64]

u64: Any = np.uint64  # calls of these are conversions in compiled code
i64: Any = np.int64

LEAST, MOST = -(2**63), 2**63 - 1
"""The limits of int64, and so of a key."""
