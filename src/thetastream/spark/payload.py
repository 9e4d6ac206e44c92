"""A join as bytes: how it travels to Spark's Python workers, and is read once per process."""

from __future__ import annotations

import gc
import os
import pickle
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from thetastream.errors import StateError

WARM = "THETASTREAM_WARM_WORKER"
"""The variable that ``daemon`` sets in the workers that it forks with everything loaded."""
_SPECS: dict[bytes, Any] = {}


def is_warm() -> bool:
    """Whether this worker had everything loaded when it was forked."""
    return WARM in os.environ


def read_payload(payload: bytes, *modules: str) -> Any:
    """Unpickle a join; return the same object for the same bytes, as it caches its plan.

    ``modules`` are what the join needs to run. When the first join is read, everything loaded is
    taken out of garbage collection: Spark collects garbage after every task, and scanning modules
    and compiled kernels took 92 ms each time. A worker that lacks a package gets a plain message.
    """
    if payload not in _SPECS:
        try:
            spec = pickle.loads(payload)
            for name in modules:
                import_module(name)
        except ImportError as error:
            raise StateError(
                f"this Python worker ({sys.executable}) cannot run thetastream: {error}. Install "
                "thetastream[spark] for the Python of every executor, or name one that has it: "
                "PYSPARK_PYTHON, or spark.pyspark.python"
            ) from None
        if not _SPECS:
            gc.collect()
            gc.freeze()
        if len(_SPECS) > 64:
            _SPECS.clear()
        _SPECS[payload] = spec
    return _SPECS[payload]


class WorkerCheck:
    """A task that passes its rows on, to see whether workers can run the library at all."""

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        return batches
