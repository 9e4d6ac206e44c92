"""Types of arrays, named once for the whole laboratory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.int64]
"""Keys, ids, positions and counts."""
Sums = NDArray[np.uint64]
"""Checksums modulo 2^64."""
Flags = NDArray[np.bool_]
