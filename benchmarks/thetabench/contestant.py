"""What every contestant of a benchmark offers, thetastream and its peers alike.

A contestant keeps an exact count window per side. Batches are pushed one side at a time; every
row of a push meets the last ``window`` rows of the other side. In a self-join row ``x`` meets the
rows at most ``window`` positions before it, rows of its own push included, and both ordered pairs
are answered. The column ``id`` holds the row's position on its side.

Arrow comes in, Arrow goes out: a table with the columns ``id`` and ``id_right``, the ids of the
left and of the right row. Conversions happen inside ``push``, so they are part of the time.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from thetabench.query import Query, Values
from thetastream.errors import RegistryError, ThetastreamError
from thetastream.side import Side

PHASES = ("keys", "sort", "probe", "insert", "merge", "expire", "gather")
"""Phases of a push, as in the engine's metrics. A peer reports those that it can tell apart."""


class MissingPackage(ThetastreamError, ImportError):
    """A peer's package is not installed."""


class Unavailable(ThetastreamError):
    """A contestant cannot be run here, for the reason given; ``status`` is that of its line."""

    status = "not run"


class Failed(Unavailable):
    """A contestant ended in an error."""

    status = "failed"


class Contestant(Protocol):
    """One way to answer a window join, push by push."""

    name: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]
    """The packages whose versions belong into the result."""

    def __init__(self, query: Query, **options: str) -> None: ...

    @classmethod
    def supports(cls, query: Query) -> bool:
        """Whether the contestant has a form for this query at all."""
        ...

    @classmethod
    def push_seconds(cls, query: Query, batch: int) -> float:
        """A rough time of one push, to skip hopeless cells; 0 when none is hopeless."""
        ...

    def prefill(self, left: pa.Table, right: pa.Table | None) -> None:
        """Load the first rows of both sides without asking for their matches. Not timed."""
        ...

    def push(self, side: Side, rows: pa.RecordBatch) -> pa.Table:
        """Answer the matches of fresh rows, then store them."""
        ...

    def phases(self) -> Mapping[str, float]:
        """Seconds spent so far, by phase."""
        ...

    def index_bytes(self) -> int:
        """Bytes of the index, 0 when the contestant cannot tell."""
        ...


class Stopwatch:
    """Adds up seconds by phase.

    >>> watch = Stopwatch()
    >>> with watch.phase("probe"):
    ...     pass
    >>> sorted(watch.seconds)
    ['probe']
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time of a block as part of a phase."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


def pairs(side: Side, fresh: Any, stored: Any) -> pa.Table:
    """Make the answer of a push from the ids of fresh rows and of the stored rows they matched."""
    left, right = (fresh, stored) if side is Side.LEFT else (stored, fresh)
    return pa.table({"id": left, "id_right": right})


def self_pairs(fresh: Any, stored: Any) -> pa.Table:
    """Make the answer of a self-join push: both ordered pairs, without copying the ids."""
    one, two = (_chunks(values) for values in (fresh, stored))
    return pa.table(
        {
            "id": pa.chunked_array([*one, *two], pa.int64()),
            "id_right": pa.chunked_array([*two, *one], pa.int64()),
        }
    )


def _chunks(values: pa.ChunkedArray | pa.Array | Values) -> list[pa.Array]:
    if isinstance(values, pa.ChunkedArray):
        return list(values.chunks)
    return [values if isinstance(values, pa.Array) else pa.array(values)]


def optional(module: str) -> Any:
    """Import a module of a peer, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise MissingPackage(
            f"{package} is not installed; the benchmarks need it: pip install -e benchmarks"
        ) from error


def parse_spec(spec: str) -> tuple[str, dict[str, str]]:
    """Read ``name`` or ``name:option=value,option=value``.

    >>> parse_spec("thetastream:threads=2,tactic=auto")
    ('thetastream', {'threads': '2', 'tactic': 'auto'})
    """
    name, _, rest = spec.partition(":")
    options: dict[str, str] = {}
    for item in filter(None, rest.split(",")):
        key, equals, value = item.partition("=")
        if not equals or not key or not value:
            raise RegistryError(
                f"contestant options are written name:option=value,…; got {item!r} in {spec!r}."
            )
        options[key.strip()] = value.strip()
    return name.strip(), options
