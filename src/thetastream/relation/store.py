"""``Relation``: a table on disk, sorted by key.

>>> relation = ts.Relation.build("parts.rel", "parts.parquet", key="partkey")   # doctest: +SKIP
>>> relation.rows, relation.leaves, relation.index_bytes                         # doctest: +SKIP

Readers and writers do not wait for each other: a reader takes a ``snapshot``, which stays as it is;
a writer appends to the journal or writes a new generation. ``refresh`` looks whether someone else,
perhaps in another process, has written. The only lock that readers hold (READERS) keeps writers
from changing blocks in place.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from thetastream.errors import RelationError, StateError, suggest
from thetastream.relation.build import BuildOptions, Progress, build
from thetastream.relation.clock import PROFILES, SimulatedClock
from thetastream.relation.device import BlockFile, Device, Simulated, costs_of
from thetastream.relation.folder import Folder, SharedLock
from thetastream.relation.scan import check_leaves, scan
from thetastream.relation.snapshot import Snapshot, State, read_state

__all__ = ["Relation"]

DeviceFactory = Callable[[Path, int], Device]
_TRIES = 20


class _Opened:
    """The block file of a generation, shared by the snapshots that read it."""

    def __init__(self, device: Device) -> None:
        self.device, self.users = device, 1

    def leave(self) -> None:
        self.users -= 1
        if not self.users:
            self.device.close()


class Relation:
    """A relation that is open. Make one with ``build`` or ``open``; it is a context manager.

    For one thread at a time, like the joins that read it; several relations of one path, in one
    process or many, may be open at once.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        direct: bool = False,
        device: str | DeviceFactory | None = None,
        clock: SimulatedClock | None = None,
    ) -> None:
        """Use ``Relation.open``."""
        self.folder = Folder(path)
        self.direct = direct
        self.clock, self._factory = _device_factory(device, clock, direct)
        self._seen, self._state = self._load()
        self._opened: _Opened | None = None
        self._readers: SharedLock | None = None
        self._snapshots = 0
        self._closed = False

    # --- Making one -----------------------------------------------------------------------------

    @classmethod
    def build(
        cls,
        path: str | os.PathLike[str],
        source: Any,
        key: str | Sequence[str],
        block_bytes: int = 8192,
        fill: float = 0.8,
        *,
        memory: str | int = "256 MB",
        progress: Callable[[Progress], None] | None = None,
    ) -> Relation:
        """Build a relation from rows of any kind, in the place of one that is there; open it.

        ``key`` is a column, or a pair ``(lo, hi)`` of columns for rows that hold over an interval.
        Rows whose key is NULL are left out and counted (``null_keys``). Rows whose ``lo`` lies
        above ``hi`` are kept; no point lies in them; they are counted (``empty_intervals``).
        ``fill`` is the share of a block that is filled; the rest is for inserts. Sorts within
        ``memory``, on disk where that is too little. A build that fails, is interrupted or killed
        leaves the old relation, or none if there was none.

        O(n log n); reads rows once and writes them once, twice more when they do not fit in memory.
        """
        build(path, source, BuildOptions.checked(key, block_bytes, fill, memory), progress)
        return cls.open(path)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        direct: bool = False,
        device: str | DeviceFactory | None = None,
        clock: SimulatedClock | None = None,
    ) -> Relation:
        """Open a relation: reads its index, checks it, and holds it in memory.

        ``direct`` reads blocks past the page cache. ``device`` is ``"disk"``, ``"ssd"`` or
        ``"object-store"`` for a device whose costs are accounted for on ``clock``, or a function
        of path and ``block_bytes`` that gives a device.
        """
        return cls(path, direct=direct, device=device, clock=clock)

    def _load(self) -> tuple[bytes, State]:
        """The state on disk; again when a writer replaces files meanwhile."""
        for last in (False,) * (_TRIES - 1) + (True,):
            seen = self.folder.current_bytes()
            current = self.folder.parse(seen)
            try:
                return seen, read_state(self.folder, current)
            except FileNotFoundError as error:
                if last or self.folder.current_bytes() == seen:
                    raise RelationError(
                        f"the relation {str(self.path)!r} lacks its file "
                        f"{Path(error.filename).name!r}; restore the folder from a copy, or build "
                        "the relation again"
                    ) from None
        raise AssertionError

    # --- Facts ----------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """The folder."""
        return self.folder.path

    @property
    def schema(self) -> pa.Schema:
        """Columns, as they were given."""
        return self._state.schema

    @property
    def key(self) -> tuple[str, ...]:
        """The key column, or ``lo`` and ``hi``."""
        return self._state.facts.key

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self._state.facts.rows

    @property
    def leaves(self) -> int:
        """Number of leaves: places that one look-up reads as a whole."""
        return len(self._state.fences)

    @property
    def blocks(self) -> int:
        """Blocks of the block file."""
        return self._state.facts.blocks

    @property
    def block_bytes(self) -> int:
        """Bytes of a block."""
        return self._state.facts.block_bytes

    @property
    def fill(self) -> float:
        """Share of a block that is filled when it is built."""
        return self._state.facts.fill

    @property
    def nbytes(self) -> int:
        """Bytes of the block file."""
        return self.blocks * self.block_bytes

    @property
    def index_bytes(self) -> int:
        """Bytes of the index in memory: 8 and a bit per leaf as it was built."""
        return self._state.index_bytes

    @property
    def version(self) -> int:
        """Grows with every change."""
        return self._state.version

    @property
    def generation(self) -> str:
        """Name of the generation of files."""
        return self._state.current.generation

    @property
    def null_keys(self) -> int:
        """Rows that the build left out because a key was NULL."""
        return self._state.facts.null_keys

    @property
    def empty_intervals(self) -> int:
        """Rows whose ``lo`` lies above ``hi``, when it was built."""
        return self._state.facts.empty_intervals

    def __repr__(self) -> str:
        return (
            f"Relation({str(self.path)!r}, key={', '.join(self.key)}, {self.rows:,} rows, "
            f"{self.leaves:,} leaves, version {self.version})"
        )

    # --- Reading --------------------------------------------------------------------------------

    def refresh(self) -> bool:
        """Look whether someone has written; whether so. Reads one small file if not."""
        self._check_open()
        if self.folder.current_bytes() == self._seen:
            return False
        self._seen, state = self._load()
        self._use(state)
        return True

    def _use(self, state: State) -> None:
        """Make another state the one that later snapshots see; open ones keep theirs."""
        if state.current.generation != self.generation and self._opened is not None:
            self._opened.leave()
            self._opened = None
        self._state = state

    def snapshot(self) -> Snapshot:
        """The relation as it is now, pinned until the snapshot is closed; a context manager."""
        self._check_open()
        if self._readers is None:
            self._readers = SharedLock(self.folder / "READERS")
        if not self._snapshots:
            self._readers.share()
        self._snapshots += 1
        opened = None
        try:
            self.refresh()
            opened = self._open_blocks()
            return Snapshot(self._state, opened.device, lambda: self._leave(opened))
        except BaseException:
            self._leave(opened)
            raise

    def _open_blocks(self) -> _Opened:
        """The block file of the present state; once more after a writer replaced it just now."""
        for _ in range(_TRIES):
            if self._opened is None:
                path = self.folder / self._state.current.blocks
                try:
                    self._opened = _Opened(self._factory(path, self.block_bytes))
                except RelationError:
                    if not self.refresh():
                        raise
                    continue
            self._opened.users += 1
            return self._opened
        raise RelationError(
            f"the relation {str(self.path)!r} is being replaced all the time; try again later"
        )

    def _leave(self, opened: _Opened | None) -> None:
        if opened is not None:
            opened.leave()
        self._snapshots -= 1
        if not self._snapshots and self._readers is not None:
            self._readers.release()
            if self._closed:
                self._readers.close()
                self._readers = None

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows in key order, of one state; some columns if named. Reads in long sequences."""
        self._check_open()
        names = self._columns(columns)
        return self._batches(names)

    def _batches(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        with self.snapshot() as snapshot:
            yield from scan(snapshot, names)

    def to_table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows in key order; as much memory as they take."""
        names = self._columns(columns)
        schema = pa.schema([self.schema.field(name) for name in names])
        return pa.Table.from_batches(self.batches(names), schema=schema)

    def _columns(self, columns: Sequence[str] | None) -> list[str]:
        names = self.schema.names
        if columns is None:
            return list(names)
        for name in columns:
            if name not in names:
                raise RelationError(
                    f"the relation has no column {name!r}; it has {', '.join(names)}."
                    f"{suggest(name, names)}"
                )
        return list(columns)

    def check(self) -> None:
        """Read everything and compare: checksums, order of keys, fences, spans, counts.

        RelationError that names the first thing that is wrong. Reads the whole block file.
        """
        with self.snapshot() as snapshot:
            check_leaves(snapshot, str(self.path))

    # --- Writing: what updates build on ---------------------------------------------------------

    @contextmanager
    def _writing(self, what: str) -> Iterator[None]:
        """Hold the writers' lock, with the newest state; leftovers of killed writers go."""
        self._check_open()
        with self.folder.writing(what):
            self.folder.remove_leftovers()
            self.refresh()
            yield

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """Whether nobody reads blocks, here or in another process; if so, nobody can meanwhile."""
        if self._snapshots:
            yield False
            return
        lock = SharedLock(self.folder / "READERS")
        try:
            yield lock.try_exclusive()
        finally:
            lock.close()

    # --- The end --------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise StateError(f"the relation {str(self.path)!r} is closed; open it again")

    def close(self) -> None:
        """Let go of the files; open snapshots can be read on. More than once is harmless."""
        if self._closed:
            return
        self._closed = True
        if self._opened is not None:
            self._opened.leave()
            self._opened = None
        if self._readers is not None and not self._snapshots:
            self._readers.close()
            self._readers = None

    def __enter__(self) -> Relation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _device_factory(
    device: str | DeviceFactory | None, clock: SimulatedClock | None, direct: bool
) -> tuple[SimulatedClock | None, DeviceFactory]:
    """How block files are opened, and on which clock their cost is accounted for."""

    def real(path: Path, block_bytes: int) -> Device:
        return BlockFile(path, block_bytes, direct=direct)

    if device is None:
        return clock, real
    if callable(device):
        return clock, device
    if device not in PROFILES:
        raise RelationError(
            f"there is no device {device!r}; there are {', '.join(PROFILES)}."
            f"{suggest(str(device), PROFILES)}"
        )
    simulated = SimulatedClock(PROFILES[device]) if clock is None else clock

    def accounted(path: Path, block_bytes: int) -> Device:
        return Simulated(real(path, block_bytes), simulated, costs_of(device, block_bytes))

    return simulated, accounted
