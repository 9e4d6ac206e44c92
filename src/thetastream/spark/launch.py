"""What Spark's Python workers unpickle first: it needs nothing of this library.

Spark sends functions by reference, as module and name. A worker without thetastream would fail
while it reads one, with a bare ``ModuleNotFoundError`` inside Spark's own error. What is in this
module travels *by value* instead, so it runs anywhere, and can say what is missing and where:

    driver    launched("thetastream: pack left", "thetastream.spark.theta.worker:PackTask", …)
    worker    import thetastream ── absent? another version? say so ── PackTask(…)(batches)

So nothing here may import the library at the top.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


def version_here() -> str:
    """The version of the library in this process."""
    return str(import_module("thetastream").__version__)


def load(target: str, version: str, arguments: tuple[Any, ...]) -> Any:
    """Make what ``module:name`` builds from the arguments; an error says what to install."""
    module, _, name = target.partition(":")
    here = f"this Python worker ({sys.executable}, Python {sys.version.split()[0]})"
    advice = (
        f"Install thetastream[spark]=={version} for the Python of every executor, or name a Python "
        "that has it: PYSPARK_PYTHON, or spark.pyspark.python"
    )
    try:
        installed = str(import_module("thetastream").__version__)
        made = getattr(import_module(module), name) if installed == version else None
    except ImportError as error:
        raise ImportError(f"{here} cannot run thetastream: {error}. {advice}") from None
    if made is None:
        raise ImportError(
            f"{here} has thetastream {installed}, but the driver planned the join with {version}; "
            f"both must be the same. {advice}"
        )
    return made(*arguments)


class Launched:
    """A function of batches, made in the worker when it is first called."""

    def __init__(self, title: str, target: str, version: str, arguments: tuple[Any, ...]) -> None:
        self.__name__ = title  # what Spark shows in its plans
        self._target, self._version, self._arguments = target, version, arguments

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from load(self._target, self._version, self._arguments)(batches)


def launched(title: str, target: str, *arguments: Any) -> Launched:
    """A task for ``mapInArrow``, under a title that Spark shows."""
    return Launched(title, target, version_here(), arguments)


def launched_join(title: str, target: str, payload: bytes) -> Callable[..., Any]:
    """A function for ``applyInArrow``, which reads its type hints: it takes and returns batches."""
    version = version_here()

    def join(
        key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        yield from load(target, version, (payload,))(key, batches)

    join.__name__ = title
    return join


class LaunchedProcessor(StatefulProcessor):
    """A stateful processor, made in the worker when Spark hands it the state."""

    def __init__(self, target: str, payload: bytes, timed: bool) -> None:
        self._target, self._payload, self._timed = target, payload, timed
        self._version = version_here()

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._processor = load(self._target, self._version, (self._payload, self._timed))
        self._processor.init(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        return self._processor.handleInputRows(key, rows, timerValues)  # type: ignore[no-any-return]

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Any]:
        return self._processor.handleExpiredTimer(  # type: ignore[no-any-return]
            key, timerValues, expiredTimerInfo
        )
