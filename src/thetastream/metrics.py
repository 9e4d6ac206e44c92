"""What a join has done so far: counters, and frozen snapshots of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from time import perf_counter
from typing import Any

from thetastream.display.facts import Facts, Shown


class Items(Shown):
    """Read fields as attributes or as items; shown as a table of those that are not zero."""

    def __getitem__(self, name: str) -> Any:
        if name not in self.keys():
            raise KeyError(name)
        return getattr(self, name)

    def keys(self) -> list[str]:
        """Names of the fields."""
        return [f.name for f in fields(self)]  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def as_dict(self) -> dict[str, Any]:
        """Plain values, nested."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]

    def _shown(self) -> tuple[str, Facts]:
        plain = {name: self[name] for name in self.keys() if isinstance(self[name], int | float)}
        return type(self).__name__, {name: value for name, value in plain.items() if value}


@dataclass(frozen=True, repr=False)
class SideMetrics(Items):
    """One side of a join."""

    rows: int
    dropped: int
    null_keys: int
    nan_keys: int
    empty_intervals: int
    null_times: int
    waiting_rows: int
    window_rows: int
    window_bytes: int
    max_time: int | None


@dataclass(frozen=True, repr=False)
class Metrics(Items):
    """A snapshot; ``metrics.matches`` and ``metrics["matches"]`` are the same.

    ``dropped`` counts late rows, ``empty_intervals`` rows whose interval ends before it begins.
    ``candidates`` counts the pairs that the index returned, before residuals and the arrival window
    were checked; ranges have none. ``window_*`` is what is stored now, ``peak_bytes`` the maximum
    after any push. ``replans`` counts moves of an index to another layout, ``switches`` changes of
    structure from one subwindow to the next.
    """

    pushes: int
    rows: int
    matches: int
    output_rows: int
    dropped: int
    null_keys: int
    nan_keys: int
    empty_intervals: int
    null_times: int
    candidates: int
    window_rows: int
    window_bytes: int
    index_bytes: int
    payload_bytes: int
    peak_bytes: int
    runs: int
    merges: int
    merged_rows: int
    replans: int
    switches: int
    keys_seconds: float
    sort_seconds: float
    probe_seconds: float
    insert_seconds: float
    merge_seconds: float
    expire_seconds: float
    gather_seconds: float
    plan_seconds: float
    sides: dict[str, SideMetrics]


@dataclass
class SideCounters:
    """Counts of one side that only grow."""

    rows: int = 0
    dropped: int = 0
    null_keys: int = 0
    nan_keys: int = 0
    empty_intervals: int = 0
    null_times: int = 0


@dataclass(slots=True)
class Spent:
    """The work of one index since it was planned: rows that probed and were stored, and seconds.

    Seconds are processor time of the probing thread, not of a pool of threads.
    """

    asked: int = 0
    stored: int = 0
    probe: float = 0.0
    insert: float = 0.0

    @property
    def per_row(self) -> float | None:
        """Nanoseconds per row, as in estimates; None before any row has probed."""
        if not self.asked or not self.stored:
            return None
        return (self.probe / self.asked + self.insert / self.stored) * 1e9

    def as_dict(self) -> dict[str, float]:
        """Plain values; empty before any row has probed."""
        if self.per_row is None:
            return {}
        return {
            "measured ns per row": round(self.per_row, 1),
            "of which measured for its insert": round(self.insert / self.stored * 1e9, 1),
        }


@dataclass
class Counters:
    """Counts and times that only grow."""

    pushes: int = 0
    matches: int = 0
    output_rows: int = 0
    candidates: int = 0
    replans: int = 0
    peak_bytes: int = 0
    seconds: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(
            ("keys", "sort", "probe", "insert", "expire", "gather", "plan"), 0.0
        )
    )

    def timed(self, phase: str) -> Timer:
        """Add the time spent inside a ``with`` block to a phase."""
        return Timer(self.seconds, phase)


class Timer:
    """A stopwatch; a class and no generator because it runs several times per push."""

    __slots__ = ("_phase", "_seconds", "_started")

    def __init__(self, seconds: dict[str, float], phase: str) -> None:
        self._seconds = seconds
        self._phase = phase

    def __enter__(self) -> None:
        self._started = perf_counter()

    def __exit__(self, *failure: object) -> None:
        self._seconds[self._phase] += perf_counter() - self._started
