"""Who is measured, doing what, with which tables and streams."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from thetabench import figure


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
