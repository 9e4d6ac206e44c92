"""Who is measured, doing what: contestants, and the cells that give lines of figures."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from thetabench import figure
from thetabench.figure import Parameters, power

__all__ = ["Cell", "Contestant", "Device", "Measured", "Shape", "Source", "Stream", "Table", "Work"]


class Work(Enum):
    """What is found out."""

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


@dataclass(frozen=True)
class Stream:
    """A stream over the keys of a table."""

    shape: Shape
    rows: int
    skew: float = 0.0


@dataclass(frozen=True)
class Contestant:
    """Who competes. ``label`` names it in tables and plots, ``place`` is its place on the axis."""

    label: str
    method: str
    """ssij, mesh, nested, batched; or the name of a system or of a way to plan."""
    place: float
    parameters: Parameters = ()
    part: float = 1.0
    """How much of the stream it is given: less for the slow ones."""

    @property
    def settings(self) -> str:
        """The parameters as text."""
        return figure.settings(self.parameters)


@dataclass(frozen=True)
class Cell:
    """Contestants that join the same stream to the same table within the same memory."""

    figure: str
    work: Work
    table: Table
    stream: Stream
    memory: float
    """Budget, as a share of the table's bytes on disk."""
    contestants: tuple[Contestant, ...]
    device: Device = Device.DISK

    @property
    def label(self) -> str:
        """Give a short name for progress lines and messages."""
        return f"{self.figure} at {power(self.contestants[0].place)}"


@dataclass(frozen=True)
class Measured:
    """What one contestant did, as columns of its line; or why it did nothing."""

    who: Contestant
    columns: dict[str, Any]
    reason: str = ""
