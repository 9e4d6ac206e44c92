"""Who is measured, doing what, with which tables and streams; and what many figures share.

Scale 1 is 1/64 of the paper's Table II: a table of 1.25 million rows of 128 bytes. Rates do not
change with the scale as long as reading decides, since memory and table shrink alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from thetabench import figure
from thetabench.figure import Parameters, Sizes


class Work(Enum):
    """What is measured."""

    SERVICE = "service"
    """Rows per second when the next rows come as soon as the last were taken."""
    SUSTAINED = "sustained"
    """The greatest constant rate of arrival that memory bears."""
    DEADLINE = "deadline"
    """The same, when every row must be answered in time."""
    BURST = "burst"
    """How long more than that rate is borne."""
    PLAN = "plan"
    """What it costs to read a set of blocks, and to plan it."""
    INDEX = "index"
    """Bytes of the index in memory."""
    SYSTEM = "system"
    """Rows per second beside databases and Spark, on the real device."""


class Device(Enum):
    """Where blocks are read from."""

    DISK = "disk"
    """Cost-accounted: 8.5 ms to seek, 150 MB/s."""
    SSD = "ssd"
    """Cost-accounted: 90 µs, 500 MB/s."""
    STORE = "object-store"
    """Cost-accounted: 20 ms, 80 MB/s."""
    DIRECT = "direct"
    """The device of this machine, without the page cache."""

    @property
    def simulated(self) -> bool:
        """Whether time is accounted for instead of measured."""
        return self is not Device.DIRECT


class Source(Enum):
    """What a table holds."""

    UNIFORM = "uniform"
    """Keys are uniform in the domain."""
    REPEATED = "repeated"
    """Each key occurs equally often (1:K)."""
    PART = "tpc-h part"
    ZONES = "taxi zones"


class Shape(Enum):
    """What a stream brings."""

    ZIPF = "zipf"
    """Small keys are frequent: the paper's NoPerm."""
    PERMUTED = "zipf, permuted"
    """Frequent keys are anywhere: the paper's Random."""
    LOCAL = "temporal locality"
    """Zipf within a twentieth of the domain; which one, changes."""
    SPREAD = "spread"
    """The worst case of Section V."""
    LINEITEM = "tpc-h lineitem"
    TRIPS = "taxi trips"


@dataclass(frozen=True)
class Table:
    """A table on disk: ``keys`` is the domain of its keys."""

    source: Source
    rows: int
    keys: int
    fill: float = 0.8

    @property
    def content(self) -> tuple[Source, int, int]:
        """What its rows depend on."""
        return self.source, self.rows, self.keys


@dataclass(frozen=True)
class Stream:
    """A stream over the keys of a table."""

    shape: Shape
    rows: int
    skew: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Contestant(figure.Contestant):
    """Who competes; ``structure`` is ssij, mesh, nested, batched, a system or a way to plan."""

    part: float = 1.0
    """How much of the stream it is given: less for the slow ones."""


@dataclass(frozen=True, kw_only=True)
class Cell(figure.Cell[Contestant]):
    """Contestants that join the same stream to the same table within the same memory."""

    work: Work = Work.SERVICE
    table: Table
    stream: Stream
    memory: float
    """Budget, as a share of the table's bytes on disk."""
    device: Device = Device.DISK


# --- What many figures share ---------------------------------------------------------------------

ROWS = 1_250_000
KEYS = 250_000
"""Domain of the keys, as in Table II, at every scale: so a stream row has five matches."""
MESH, SSIJ = "mesh-join", "ssij"
FEW_COLUMNS = "ssij, two columns"
"""Our join returning what the databases' query reads, and not whole rows."""
HOME, STATIC = "relation_join", "spark-static"
"""Contestants on Spark."""
MICRO_BATCHES = 6
_LOCAL_KEYS = ROWS // 16
_LEAST = 3_000  # rows
_ON_DISK = 1.25  # bytes on disk per byte of rows, at a filling factor of 0.8
_SWEEPS = 4  # how often the rows that fit into memory are to be replaced
_FEW, _MANY = 60_000, 500_000  # rows of a stream
_SKEWED = 4  # times as many rows at skew 1, where most are answered from the cache


def scaled(sizes: Sizes, rows: float) -> int:
    """A number of rows.

    >>> scaled(Sizes(0.02), 1_250_000), scaled(Sizes(1e-4), 1_250_000)
    (25000, 3000)
    """
    return max(_LEAST, round(rows * sizes.scale))


def table(sizes: Sizes, *, rows: float = ROWS, fill: float = 0.8) -> Table:
    """The table of most figures."""
    count = scaled(sizes, rows)
    return Table(Source.UNIFORM, count, min(KEYS, count), fill)


def fitting(
    sizes: Sizes, memory: float, skew: float = 0.0, *, rows: float = ROWS, sweeps: float = _SWEEPS
) -> int:
    """Rows of a stream: enough to replace those in memory several times."""
    fit = memory * rows * _ON_DISK
    more = 1 + (_SKEWED - 1) * skew
    return scaled(sizes, more * min(max(sweeps * fit, _FEW), _MANY))


def zipf(sizes: Sizes, memory: float, skew: float, *, permuted: bool = False) -> Stream:
    """A zipf stream."""
    shape = Shape.PERMUTED if permuted else Shape.ZIPF
    return Stream(shape, fitting(sizes, memory, skew), skew)


def local(sizes: Sizes) -> tuple[Table, Stream]:
    """Temporal locality: 16 rows per key, as in the paper, and a stream through all of the keys."""
    rows = scaled(sizes, ROWS)
    keys = max(200, round(_LOCAL_KEYS * sizes.scale))
    return Table(Source.UNIFORM, rows, keys), Stream(Shape.LOCAL, scaled(sizes, 187_500), 1.0)


def ssij(place: float, parameters: Parameters = (), *, label: str = SSIJ) -> Contestant:
    """Our join."""
    return Contestant(label, "ssij", place, parameters)


def mesh(place: float, *, label: str = MESH) -> Contestant:
    """MeshJoin, which chooses its own parameters."""
    return Contestant(label, "mesh", place)
