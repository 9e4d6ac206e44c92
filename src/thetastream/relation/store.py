"""``Relation``: a table on disk, sorted by key.

>>> relation = ts.Relation.build("parts.rel", "parts.parquet", key="partkey")   # doctest: +SKIP
>>> relation.rows, relation.leaves, relation.index_bytes                         # doctest: +SKIP

Readers and writers do not wait for each other: a reader takes a ``snapshot``, which never changes;
a writer appends to the journal or writes a new generation. ``refresh`` checks for changes made by
others, perhaps in another process. The only lock that readers hold (READERS) keeps writers from
changing blocks in place.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from thetastream.condition.expression import Expression
from thetastream.errors import RelationError, StateError, suggest
from thetastream.interrupt import uninterrupted
from thetastream.relation.change.counts import ChangeCounts
from thetastream.relation.change.difference import RowDifference, difference
from thetastream.relation.change.fold import FOLD_BYTES, committed, compact, fold, follow
from thetastream.relation.change.transaction import Transaction
from thetastream.relation.disk.clock import SimulatedClock
from thetastream.relation.files import snapshot as pinned
from thetastream.relation.files.build import BuildOptions, Progress, build
from thetastream.relation.files.folder import AGAIN, Folder, SharedLock, disk_errors
from thetastream.relation.files.intervals import IntervalCounts, count_intervals
from thetastream.relation.files.scan import check_leaves, scan
from thetastream.relation.files.snapshot import DeviceFactory, Opened, Snapshot, State

_TRIES = 20


def _fact(name: str, text: str) -> Any:
    """A property of ``Relation``: a fact of its current state."""
    return property(lambda relation: getattr(relation._state.facts, name), doc=text)


class Relation:
    """An open relation, created by ``build`` or ``open``; a context manager.

    One thread at a time may use it, as with the joins that read it. Several relations of one path,
    in one process or many, may be open at once.
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
        self.folder.current()  # raises before anything is touched
        self.direct = direct
        self.clock, self._factory = pinned.device_factory(device, clock, direct)
        self._opened: Opened | None = None
        self._readers: SharedLock | None = None
        self._snapshots = 0
        self._changed = self._closed = False
        with self._sharing():
            self._seen, self._state = self._load()

    # --- Creation -------------------------------------------------------------------------------

    @classmethod
    def build(
        cls,
        path: str | os.PathLike[str],
        source: Any,
        key: str | Sequence[Any],
        block_bytes: int = 8192,
        fill: float = 0.8,
        *,
        unique: str | Sequence[str] | None = None,
        open_ends: bool | None = None,
        keep_empty: bool = False,
        replace: bool = False,
        memory: str | int = "256 MB",
        progress: Callable[[Progress], None] | None = None,
    ) -> Relation:
        """Build a relation from rows of any kind, and open it.

        ``key`` is a column, or a pair ``(lo, hi)`` of columns for rows that hold over an interval;
        with columns in front that are compared by equality: ``("region", ("lo", "hi"))``.
        ``unique`` names columns whose values no two rows share (NULL equals NULL): updates and
        deletes then find single rows. Rows whose key is NULL are skipped and counted
        (``null_keys``). A NULL end of an interval is an error, unless ``open_ends`` says what it
        means: True, that the interval has no end (or no beginning); False, that the row is skipped.
        Intervals that end before they begin are an error, unless ``keep_empty``: then they are
        stored and counted (``empty_intervals``), although they contain no point. ``fill`` is the
        share of a block to fill; the rest is for inserts.
        ``replace`` allows to replace an existing relation, which otherwise is an error. Sorts
        within ``memory``, and on disk if that is too small. A build that fails, is interrupted or
        killed leaves the old relation, or none if there was none.

        O(n log n); reads rows once and writes them once, or three times if they do not fit in
        memory.
        """
        options = BuildOptions.checked(
            key, block_bytes, fill, memory, unique, open_ends, keep_empty, replace
        )
        build(path, source, options, progress)
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
        """Open a relation: read its index, verify it, and hold it in memory.

        ``direct`` reads blocks past the page cache. ``device`` is ``"disk"``, ``"ssd"`` or
        ``"object-store"`` for a simulated device whose costs are charged to ``clock``, or a
        function of path and ``block_bytes`` that returns a device.
        """
        return cls(path, direct=direct, device=device, clock=clock)

    def _load(self) -> tuple[bytes, State]:
        """Read the state on disk; retry if a writer replaces files meanwhile."""
        for last in (False,) * (_TRIES - 1) + (True,):
            seen = self.folder.current_bytes()
            current = self.folder.parse(seen)
            try:
                return seen, follow(self.folder, pinned.read_state(self.folder, current))
            except FileNotFoundError as error:
                if last or self.folder.current_bytes() == seen:
                    raise RelationError(
                        f"the relation {str(self.path)!r} lacks its file "
                        f"{Path(error.filename).name!r}; {AGAIN}"
                    ) from None
        raise AssertionError

    # --- Facts ----------------------------------------------------------------------------------

    rows: int = _fact("rows", "Number of rows.")
    unique: tuple[str, ...] = _fact("unique", "Columns whose values no two rows share; or none.")
    blocks: int = _fact("blocks", "Blocks of the block file.")
    block_bytes: int = _fact("block_bytes", "Bytes of a block.")
    fill: float = _fact("fill", "Share of a block that the build fills.")
    open_ends: bool | None = _fact(
        "open_ends", "Whether NULL is an open end of an interval; None: such rows are refused."
    )
    keep_empty: bool = _fact("keep_empty", "Whether intervals may end before they begin.")
    null_keys: int = _fact("null_keys", "Rows skipped because a key was NULL.")
    empty_intervals: int = _fact("empty_intervals", "Rows whose ``lo`` lies above ``hi``.")

    @property
    def key(self) -> tuple[Any, ...]:
        """The key column, or ``lo`` and ``hi``; in parentheses if other columns are in front."""
        return self._state.facts.columns.form

    @property
    def is_interval(self) -> bool:
        """Whether rows hold over an interval."""
        return self._state.facts.columns.is_interval

    @property
    def path(self) -> Path:
        """The folder."""
        return self.folder.path

    @property
    def schema(self) -> pa.Schema:
        """Columns, as in the source."""
        return self._state.schema

    @property
    def leaves(self) -> int:
        """Number of leaves: a look-up reads a leaf as a whole."""
        return len(self._state.fences)

    @property
    def nbytes(self) -> int:
        """Bytes of the block file."""
        return self.blocks * self.block_bytes

    @property
    def index_bytes(self) -> int:
        """Bytes of the index in memory: slightly more than 8 per leaf after a build."""
        return self._state.index_bytes

    @property
    def version(self) -> int:
        """Number of the version; grows with every change."""
        return self._state.version

    @property
    def generation(self) -> str:
        """Name of the generation of files."""
        return self._state.current.generation

    def __repr__(self) -> str:
        return (
            f"Relation({str(self.path)!r}, key={self._state.facts.columns}, {self.rows:,} rows, "
            f"{self.leaves:,} leaves, version {self.version})"
        )

    # --- Reading --------------------------------------------------------------------------------

    def refresh(self) -> bool:
        """Load changes made by others; return whether there were any.

        Reads one small file if there were none, and after updates only the journal's new records.
        """
        self._check_open()
        with self._sharing():
            state = None
            if self.folder.current_bytes() == self._seen:
                with suppress(FileNotFoundError):  # just replaced
                    state = follow(self.folder, self._state)
            if state is None:
                self._seen, state = self._load()
            if state is self._state:
                return False
            self._use(state)
            return True

    @contextmanager
    def _sharing(self) -> Iterator[None]:
        """Keep writers from folding the journal into the blocks."""
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
        """Set the state of later snapshots; open ones keep theirs."""
        if state.current.generation != self.generation and self._opened is not None:
            self._opened.leave()
            self._opened = None
        self._state = state

    def snapshot(self) -> Snapshot:
        """The current state of the relation, pinned until the snapshot is closed."""
        with self._sharing():
            self.refresh()
            opened = self._open_blocks()
            self._snapshots += 1
            return Snapshot(self._state, opened.device, lambda: self._leave(opened))

    def has_changed_since(self, snapshot: Snapshot) -> bool:
        """Whether a later state than a snapshot's is known; ``refresh`` looks for one."""
        seen, now = snapshot.state, self._state
        return (now.current.generation, now.version) != (seen.current.generation, seen.version)

    def _open_blocks(self) -> Opened:
        """Open the block file of the current state; retry if a writer has just replaced it."""
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
            f"the relation {str(self.path)!r} is being replaced continuously; try again later"
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
        """All rows of one state in key order, or some columns of them. Reads long sequences."""
        self._check_open()
        _check_columns(self.schema, columns)
        return self._batches(columns)

    def _batches(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        with self.snapshot() as snapshot:
            yield from scan(snapshot, _check_columns(snapshot.layout.schema, columns))

    def to_table(self, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows in key order, in memory."""
        with self.snapshot() as snapshot:
            schema = snapshot.layout.schema
            names = _check_columns(schema, columns)
            if names is not None:
                schema = pa.schema(map(schema.field, names), schema.metadata)
            return pa.Table.from_batches(scan(snapshot, names), schema=schema)

    def intervals(self) -> IntervalCounts:
        """Count intervals that are open, empty, or overlap others with the same equality columns.

        Reads every leaf, and holds the columns of the key in memory.
        """
        with self.snapshot() as snapshot:
            return count_intervals(snapshot)

    def difference(self, later: Relation) -> RowDifference:
        """Rows that differ from those of a later state, such as a copy that has been changed.

        Holds all rows of both in memory.
        """
        with self.snapshot() as before, later.snapshot() as after:
            return difference(before, after)

    def check(self) -> None:
        """Read the whole block file and verify checksums, key order, fences, spans and counts.

        A RelationError names the first violation.
        """
        with self.snapshot() as snapshot:
            check_leaves(snapshot, str(self.path))

    # --- Changing -------------------------------------------------------------------------------

    def insert(self, rows: Any, *, dry_run: bool = False) -> ChangeCounts:
        """Insert rows in a transaction. See ``Transaction.insert``; ``dry_run`` only counts."""
        with self.transaction(dry_run=dry_run) as changes:
            return changes.insert(rows)

    def update(
        self, rows: Any, upsert: bool = False, replace_key: bool = False, *, dry_run: bool = False
    ) -> ChangeCounts:
        """Replace rows with the same keys. See ``Transaction.update``; ``dry_run`` only counts."""
        with self.transaction(dry_run=dry_run) as changes:
            return changes.update(rows, upsert, replace_key)

    def delete(
        self, keys: Any = None, *, where: str | Expression | None = None, dry_run: bool = False
    ) -> ChangeCounts:
        """Delete rows by key or condition. See ``Transaction.delete``; ``dry_run`` only counts."""
        with self.transaction(dry_run=dry_run) as changes:
            return changes.delete(keys, where=where)

    @contextmanager
    def transaction(self, *, dry_run: bool = False) -> Iterator[Transaction]:
        """Several changes that become visible and durable together, when the block ends.

        With ``dry_run`` nothing is written: changes are only checked and counted. An exception
        leaves the relation unchanged. Costs one sync of the journal.
        """
        with self._writing("update"):
            with self.snapshot() as snapshot:
                changes = Transaction(snapshot)
                try:
                    yield changes
                    draft = changes.draft
                    if draft.changed and not dry_run:
                        contents, images = draft.contents(self.version + 1)
                        with uninterrupted():
                            self._use(committed(self.folder, self._state, contents, images))
                            self._changed = True
                finally:
                    changes.end()
            if self.journal_bytes >= FOLD_BYTES:
                with suppress(RelationError, OSError):  # the transaction is durable; fold next time
                    self._fold()

    @property
    def journal_bytes(self) -> int:
        """Bytes of the journal: changes that are not yet in the block file."""
        return self._state.overlay.position

    def fold(self) -> bool:
        """Move the journal's changes into the block file; return False if there are readers.

        Happens automatically if the journal is large, and when a changed relation is closed.
        """
        with self._writing("fold"):
            return self._fold()

    def _fold(self) -> bool:
        if not self.journal_bytes:
            return True
        with self._alone() as alone:
            if alone:
                self._seen = b""  # read CURRENT again, whatever happens
                failed = disk_errors(self.path, "folding the journal of", "Nothing was lost.")
                with failed, uninterrupted():
                    self._use(fold(self.folder, self._state))
                self._seen = self.folder.current_bytes()
        return alone

    def compact(self) -> None:
        """Write all rows in key order to a new generation, with the fill of the build.

        Leaves are adjacent again, so that sequences are long. Open snapshots keep the old one.
        """
        with self._writing("compact"):
            with self.snapshot() as snapshot:
                compact(self.folder, snapshot)
            self.refresh()

    @contextmanager
    def _writing(self, what: str) -> Iterator[None]:
        """Hold the writers' lock, load the newest state, and remove files of killed writers."""
        self._check_open()
        with self.folder.writing(what):
            self.folder.remove_leftovers()
            self.refresh()
            yield

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """Whether there are no readers in any process; if so, keep them out meanwhile."""
        if self._snapshots:
            yield False
            return
        lock = SharedLock(self.folder / "READERS")
        try:
            yield lock.try_exclusive()
        finally:
            lock.close()

    def _check_open(self) -> None:
        if self._closed:
            raise StateError(f"the relation {str(self.path)!r} is closed; open it again")

    def close(self) -> None:
        """Release the files; open snapshots remain readable. Repeated calls are harmless."""
        if self._closed:
            return
        if self._changed and not self._snapshots:
            with suppress(RelationError, OSError):  # another writer is active, or will fold later
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

    def __exit__(self, *failure: object) -> None:
        self.close()


def _check_columns(schema: pa.Schema, columns: Sequence[str] | None) -> list[str] | None:
    """The names of the columns, None for all; an error names a missing one."""
    for name in columns or ():
        if name not in schema.names:
            raise RelationError(
                f"the relation has no column {name!r}; it has {', '.join(schema.names)}."
                f"{suggest(name, schema.names)}"
            )
    return None if columns is None else list(columns)
