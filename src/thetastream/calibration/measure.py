"""All constants at once, measured and written to the file where the cost model looks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from thetastream.calibration import batches, trees
from thetastream.prices.constants import Constants


def calibrate(
    *,
    quick: bool = False,
    path: Path | None = None,
    machine: Mapping[str, Any] | None = None,
    notice: Callable[[str], None] | None = None,
) -> tuple[Constants, Path]:
    """Measure the constants and store them where ``Constants.load()`` looks, or at ``path``.

    Quick takes some seconds and stops at windows that fit the caches of most processors; otherwise
    it takes a minute or two. ``machine`` is written beside the constants.
    """
    found = trees.measure(
        trees.QUICK if quick else trees.FULL, seconds=trees.SECONDS[quick], notice=notice
    )
    prices = batches.measure(batches.QUICK if quick else batches.FULL, notice=notice)
    constants = replace(found, batches=prices)
    return constants, constants.save(path, machine=dict(machine or {}))
