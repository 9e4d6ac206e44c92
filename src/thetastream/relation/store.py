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
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from thetastream.condition.expression import Expression
from thetastream.errors import RelationError, StateError, suggest
from thetastream.interrupt import uninterrupted
from thetastream.relation.change.fold import (
    FOLD_BYTES,
    committed,
    compact,
    fold,
    follow,
    journal_bytes,
    with_journal,
)
from thetastream.relation.change.transaction import Transaction
from thetastream.relation.change.update import Draft
from thetastream.relation.disk.clock import SimulatedClock
from thetastream.relation.files.build import BuildOptions, Progress, build
from thetastream.relation.files.folder import Folder, SharedLock, disk_errors
from thetastream.relation.files.opened import DeviceFactory, Opened, device_factory
from thetastream.relation.files.scan import check_leaves, scan
from thetastream.relation.files.snapshot import Snapshot, State, read_state

_TRIES = 20


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
        self.folder.current()  # says what is wrong before anything is touched
        self.direct = direct
        self.clock, self._factory = device_factory(device, clock, direct)
        self._opened: Opened | None = None
        self._readers: SharedLock | None = None
        self._snapshots = 0
        self._changed = self._closed = False
        with self._sharing():
            self._seen, self._state = self._load()

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
                return seen, with_journal(self.folder, read_state(self.folder, current))
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
        """Look whether someone has written; whether so. Reads one small file if not.

        After updates only the new records of the journal are read.
        """
        self._check_open()
        with self._sharing():
            state = None
            if self.folder.current_bytes() == self._seen:
                with suppress(FileNotFoundError):  # replaced just now
                    state = follow(self.folder, self._state)
            if state is None:
                self._seen, state = self._load()
            if state is self._state:
                return False
            self._use(state)
            return True

    @contextmanager
    def _sharing(self) -> Iterator[None]:
        """Keep files as they are: nobody folds the journal into the blocks meanwhile."""
        if self._readers is None:
            self._readers = SharedLock(self.folder / "READERS")
        if not self._snapshots:
            self._readers.share()
        self._snapshots += 1
        try:
            yield
        finally:
            self._leave(None)

    def _use(self, state: State) -> None:
        """Make another state the one that later snapshots see; open ones keep theirs."""
        if state.current.generation != self.generation and self._opened is not None:
            self._opened.leave()
            self._opened = None
        self._state = state

    def snapshot(self) -> Snapshot:
        """The relation as it is now, pinned until the snapshot is closed; a context manager."""
        with self._sharing():
            self.refresh()
            opened = self._open_blocks()
            self._snapshots += 1
            return Snapshot(self._state, opened.device, lambda: self._leave(opened))

    def has_changed_since(self, snapshot: Snapshot) -> bool:
        """Whether a later state is known than that of a snapshot; ``refresh`` looks for one."""
        seen, now = snapshot.state, self._state
        return (now.current.generation, now.version) != (seen.current.generation, seen.version)

    def _open_blocks(self) -> Opened:
        """The block file of the present state; once more after a writer replaced it just now."""
        for _ in range(_TRIES):
            if self._opened is None:
                path = self.folder / self._state.current.blocks
                try:
                    self._opened = Opened(self._factory(path, self.block_bytes))
                except RelationError:
                    if not self.refresh():
                        raise
                    continue
            self._opened.users += 1
            return self._opened
        raise RelationError(
            f"the relation {str(self.path)!r} is being replaced all the time; try again later"
        )

    def _leave(self, opened: Opened | None) -> None:
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
        _check_columns(self.schema, columns)
        return self._batches(columns)

    def _batches(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        with self.snapshot() as snapshot:
            yield from scan(snapshot, _check_columns(snapshot.layout.schema, columns))

    def to_table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows in key order; as much memory as they take."""
        with self.snapshot() as snapshot:
            schema = snapshot.layout.schema
            names = _check_columns(schema, columns)
            if names is not None:
                schema = pa.schema(map(schema.field, names), schema.metadata)
            return pa.Table.from_batches(scan(snapshot, names), schema=schema)

    def check(self) -> None:
        """Read everything and compare: checksums, order of keys, fences, spans, counts.

        RelationError that names the first thing that is wrong. Reads the whole block file.
        """
        with self.snapshot() as snapshot:
            check_leaves(snapshot, str(self.path))

    # --- Changing -------------------------------------------------------------------------------

    def insert(self, rows: Any) -> int:
        """Put rows in; a transaction of its own. See ``Transaction.insert``."""
        with self.transaction() as changes:
            return changes.insert(rows)

    def update(self, rows: Any, upsert: bool = False) -> int:
        """Put rows in the place of those with their keys. See ``Transaction.update``."""
        with self.transaction() as changes:
            return changes.update(rows, upsert)

    def delete(self, keys: Any = None, *, where: str | Expression | None = None) -> int:
        """Take out the rows with the keys. See ``Transaction.delete``."""
        with self.transaction() as changes:
            return changes.delete(keys, where=where)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Several changes that become visible and durable at once, when the block ends.

        An exception leaves the relation as it was. Costs one sync of the journal.
        """
        with self._writing("update"):
            with self.snapshot() as snapshot:
                changes = Transaction(snapshot)
                try:
                    yield changes
                    self._commit(changes.draft)
                finally:
                    changes.end()
            if self.journal_bytes >= FOLD_BYTES:
                with suppress(RelationError, OSError):  # the transaction is safe; fold next time
                    self._fold()

    def _commit(self, draft: Draft) -> None:
        if draft.changed:
            contents, images = draft.contents(self.version + 1)
            with uninterrupted():
                self._use(committed(self.folder, self._state, contents, images))
                self._changed = True

    @property
    def journal_bytes(self) -> int:
        """Bytes of the journal: changes that are not yet in the block file."""
        return journal_bytes(self._state)

    def fold(self) -> bool:
        """Put the changes of the journal into the block file, if nobody reads; whether so.

        Done by itself when the journal is large and when a relation that was changed is closed.
        """
        with self._writing("fold"):
            return self._fold()

    def _fold(self) -> bool:
        if not self.journal_bytes:
            return True
        with self._alone() as alone:
            if alone:
                self._seen = b""  # whatever happens, CURRENT is read again
                failed = disk_errors(self.path, "folding the journal of", "Nothing was lost.")
                with failed, uninterrupted():
                    self._use(fold(self.folder, self._state))
                self._seen = self.folder.current_bytes()
        return alone

    def compact(self) -> None:
        """Write all rows in key order to a new generation, filled as when it was built.

        Leaves lie in a row again, so that sequences are long. Open snapshots keep the old one.
        """
        with self._writing("compact"):
            with self.snapshot() as snapshot:
                compact(self.folder, snapshot)
            self.refresh()

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
        if self._changed and not self._snapshots:
            with suppress(RelationError, OSError):  # someone else writes, or may do it later
                self.fold()
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


def _check_columns(schema: pa.Schema, columns: Sequence[str] | None) -> list[str] | None:
    """The columns that are wanted, None for all; an error that names one that is not there."""
    for name in columns or ():
        if name not in schema.names:
            raise RelationError(
                f"the relation has no column {name!r}; it has {', '.join(schema.names)}."
                f"{suggest(name, schema.names)}"
            )
    return None if columns is None else list(columns)
