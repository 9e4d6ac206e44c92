"""Measures all constants and writes them to the file that the cost model reads."""

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

    With ``quick`` it takes some seconds and stops at windows that fit the caches of most
    processors; otherwise a minute or two. ``machine`` is written beside the constants.
    """
    sizes = trees.QUICK if quick else trees.FULL
    constants = trees.measure(sizes, seconds=trees.SECONDS[quick], notice=notice)
    prices = batches.measure(batches.QUICK if quick else batches.FULL, notice=notice)
    constants = replace(constants, batches=prices)
    return constants, constants.save(path, machine=dict(machine or {}))
