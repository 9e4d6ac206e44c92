"""The state of a partition in Spark's state store: a short record, and immutable runs.

    meta       format, fingerprint, lineage, token, the list of runs with sizes and digests
    <run>      rows that one micro-batch stored, or several small runs compacted into one
    flags      a bit per row and role: has it matched? (outer, semi and anti joins)
    ranks-…    per side the ranks of all waiting rows, in any partition (count windows)
    waiting-…  per side the rows that wait here (count windows)

With a ``state_path``, runs are files there (``folder``), and the state store holds the rest.

A micro-batch writes its own rows once, the flags if there are any, and the record; expired runs are
removed as a whole. Every write creates a new token. A live partition is cached under its token: if
this process has it, use it; if not, *attach*, restoring it from the run files of this host; if a
file is missing, *rebuild*, reading that run from the state store. A retried task, a moved partition
and a restarted query all follow this rule.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream.boxes.arrival import Census
from thetastream.data.batch import joined
from thetastream.engine.partition.partition import Partition
from thetastream.errors import DataError, StateError
from thetastream.side import Side
from thetastream.spark.blobs import pieces, read_blob, write_blob
from thetastream.spark.state.cache import RunFiles
from thetastream.spark.state.digest import digest_like, digest_of, is_trusted, old_digest
from thetastream.spark.state.folder import GRACE, RunFolder
from thetastream.spark.theta.spec import JoinSpec

FORMAT = 3
READABLE = (1, 2, FORMAT)
# In format 1 all rows have a copy mark, even if there are no copies. Up to format 2, a run has a
# checksum, a CRC-32, instead of a digest.
RUN_BYTES = 8 << 20
TIER = 8
_FLAGS, _RANKS, _WAITING = "flags", "ranks", "waiting"


class Blobs(Protocol):
    """A place for named blobs."""

    def get(self, name: str) -> bytes | None:
        """A blob."""

    def put(self, name: str, blob: bytes) -> None:
        """Write a blob."""

    def remove(self, name: str, size: int = 0) -> None:
        """Remove a blob of that size."""


class StateStore(Blobs, Protocol):
    """The state store of the partition being processed."""

    def read_meta(self) -> str | None:
        """The record, or None before the first write."""

    def write_meta(self, text: str) -> None:
        """Replace the record."""


@dataclass
class RunBlob:
    """One immutable blob of rows. ``last`` is their largest event time, or position."""

    id: str
    side: str
    rows: int
    bytes: int
    digest: str
    last: int

    @classmethod
    def of(cls, facts: dict[str, Any]) -> RunBlob:
        """A run of any readable format."""
        checksum = facts.pop("checksum", None)
        return cls(**facts) if checksum is None else cls(**facts, digest=old_digest(checksum))


@dataclass
class Meta:
    """The record of a partition."""

    fingerprint: dict[str, str]
    lineage: str
    token: str
    runs: list[RunBlob] = field(default_factory=list)
    tops: dict[str, int] = field(default_factory=dict)
    timer: int | None = None
    ranks: dict[str, dict[str, int | None]] = field(default_factory=dict)
    commits: int = 0
    graves: list[tuple[str, int]] = field(default_factory=list)
    format: int = FORMAT

    def as_text(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str, where: str) -> Meta:
        """Read a record; StateError for an unknown format.

        The next record has the present format. Runs are not rewritten: a reader selects columns.
        """
        facts: dict[str, Any] = json.loads(text)
        number = facts.pop("format", None)
        if number not in READABLE:
            raise StateError(
                f"{where}: the checkpoint holds state of format {number}, and this version reads "
                f"formats {', '.join(map(str, READABLE))}; restart with the version that wrote "
                "it, or with a new checkpoint location"
            )
        runs = [RunBlob.of(run) for run in facts.pop("runs")]
        graves = [(name, commit) for name, commit in facts.pop("graves")]
        return cls(runs=runs, graves=graves, **facts)


@dataclass
class OpenPartition:
    """An open partition: the engine, its record, and the id of each run's first row."""

    partition: Partition
    meta: Meta
    firsts: dict[str, int]
    files: RunFiles
    folder: RunFolder | None = None
    doomed: list[str] = field(default_factory=list)
    compactions: int = 0
    written: int = 0

    def runs(self, side: Side) -> list[RunBlob]:
        """The runs of a stream, oldest first."""
        return [run for run in self.meta.runs if run.side == side.value]

    # --- Writing --------------------------------------------------------------------------------

    def save(self, store: StateStore, spec: JoinSpec) -> None:
        """Write what the last push changed, the record last."""
        self.files.touch()
        self.files.remove(self.doomed)
        self.doomed = []
        self.written = self.compactions = 0
        self.meta.commits += 1
        self._bury()
        for stretch in self.partition.stretches():
            first = self.partition.next_id(stretch.side) - stretch.batch.num_rows
            for piece in pieces(stretch.batch, RUN_BYTES):
                self._add(store, stretch.side, piece, stretch.last, first)
                first += piece.num_rows
        for side in spec.streams:
            self._drop_expired(store, side)
            self._compact(store, side, spec.stored(side))
        if any(self.partition.tracked.values()):
            self._put(store, _FLAGS, self._packed_flags())
        if spec.ranked:
            self._save_ranks(store)
        self.meta.token = uuid.uuid4().hex
        text = self.meta.as_text()
        store.write_meta(text)
        self.written += len(text)

    def _add(
        self, store: StateStore, side: Side, batch: pa.RecordBatch, last: int, first: int
    ) -> None:
        data = write_blob(batch).to_pybytes()
        digest = digest_of(data)
        run = RunBlob(uuid.uuid4().hex, side.value, batch.num_rows, len(data), digest, last)
        self._put(self.folder or store, run.id, data)
        if not self.mapped:
            self.files.write(run.id, data)
        self.meta.runs.append(run)
        self.firsts[run.id] = first

    @property
    def mapped(self) -> bool:
        """Whether the folder's own files can be mapped, so that no copies are needed."""
        return self.folder is not None and self.folder.local is not None

    def _put(self, blobs: Blobs, name: str, blob: bytes) -> None:
        blobs.put(name, blob)
        self.written += len(blob)

    def _drop(self, store: StateStore, runs: list[RunBlob]) -> None:
        for run in runs:
            self.firsts.pop(run.id)
            if self.folder is not None:
                self.meta.graves.append((run.id, self.meta.commits))
            else:
                store.remove(run.id, run.bytes)
            if not self.mapped:
                self.doomed.append(run.id)
        gone = {run.id for run in runs}
        self.meta.runs = [run for run in self.meta.runs if run.id not in gone]

    def _bury(self) -> None:
        """Remove files of runs that expired so long ago that no restart needs them."""
        if self.folder is not None:
            limit = self.meta.commits - GRACE
            for name, _ in (grave for grave in self.meta.graves if grave[1] < limit):
                self.folder.remove(name)
            self.meta.graves = [grave for grave in self.meta.graves if grave[1] >= limit]

    def _drop_expired(self, store: StateStore, side: Side) -> None:
        horizon = self.partition.horizon(side)
        if horizon is not None:
            self._drop(store, [run for run in self.runs(side) if run.last < horizon])

    def _compact(self, store: StateStore, side: Side, columns: list[str]) -> None:
        """Merge the newest ``TIER`` runs while they are of one size class and adjacent by id.

        A row is written once more per class, of which there are few.
        """
        while True:
            runs = self.runs(side)
            tail = runs[-TIER:]
            if len(tail) < TIER or len({_size_class(run) for run in tail}) > 1:
                return
            if sum(run.bytes for run in tail) > RUN_BYTES or not self._neighbours(tail):
                return
            batch = joined([self._batch(store, run).select(columns) for run in tail])
            first, last = self.firsts[tail[0].id], max(run.last for run in tail)
            self._drop(store, tail)
            self._add(store, side, batch, last, first)
            self.compactions += 1

    def _neighbours(self, runs: list[RunBlob]) -> bool:
        ends = [self.firsts[run.id] + run.rows for run in runs]
        return all(end == self.firsts[run.id] for end, run in zip(ends[:-1], runs[1:], strict=True))

    def _batch(self, store: StateStore, run: RunBlob) -> pa.RecordBatch:
        buffer = self.files.read(run.id, run.bytes, run.digest)
        if buffer is None:
            buffer = pa.py_buffer(_fetched(self.folder or store, run, "compaction"))
        return read_blob(buffer)

    # --- Flags and ranks ------------------------------------------------------------------------

    def _packed_flags(self) -> bytes:
        """Bits of all rows of all runs, stream by stream, role by role, run by run."""
        bits = [
            flags[self.firsts[run.id] - low :][: run.rows]
            for side in self.partition.query.streams
            if (low := min((self.firsts[run.id] for run in self.runs(side)), default=None))
            is not None
            for flags in self.partition.flags(side, low).values()
            for run in self.runs(side)
        ]
        return np.packbits(np.concatenate(bits)).tobytes() if bits else b""

    def _save_ranks(self, store: StateStore) -> None:
        for side, census in self.partition.census().items():
            self.meta.ranks[side.value] = {"released": census.released, "last": census.last}
            self._put(store, f"{_RANKS}-{side.value}", census.pending.tobytes())
        waiting = self.partition.waiting()
        for side in Side:
            name = f"{_WAITING}-{side.value}"
            if side in waiting:
                self._put(store, name, write_blob(waiting[side]).to_pybytes())
            else:
                store.remove(name)


# --- Reading ------------------------------------------------------------------------------------


def open_partition(
    store: StateStore, spec: JoinSpec, meta: Meta | None, where: str, root: Path | None = None
) -> tuple[OpenPartition, int]:
    """Restore the partition; also return how many runs were read from the state store.

    ``root`` is the folder of run files on this host, if not the default.
    """
    partition = spec.partition()
    fresh, meta = meta is None, meta or new_meta(spec)
    folder = None if spec.state_path is None else RunFolder(spec.state_path, meta.lineage)
    files = RunFiles(meta.lineage, root, state=None if folder is None else folder.local)
    opened = OpenPartition(partition, meta, {}, files, folder)
    if fresh:
        return opened, 0
    files.touch()
    fetched = 0
    batches: dict[Side, list[pa.RecordBatch]] = {side: [] for side in spec.streams}
    for side in spec.streams:
        first = 0
        for run in opened.runs(side):
            buffer = files.read(run.id, run.bytes, run.digest)
            if buffer is None:
                blob = _fetched(folder or store, run, where)
                if not opened.mapped:
                    files.write(run.id, blob)
                if not is_trusted(run.digest):
                    run.digest = digest_of(blob)
                buffer = pa.py_buffer(blob)
                fetched += 1
            batches[side].append(read_blob(buffer).select(spec.stored(side)))
            opened.firsts[run.id] = first
            first += run.rows
    if not opened.mapped:  # otherwise they are the state, and another attempt may be writing
        files.keep_only(opened.firsts)
    flags = _read_flags(store, opened, where)
    for side in spec.streams:
        partition.restore(side, batches[side], flags.get(side, {}))
    partition.tops = {
        side: meta.tops[side.value] for side in spec.streams if side.value in meta.tops
    }
    if spec.ranked:
        _restore_ranks(store, opened, spec, where)
    return opened, fetched


def new_meta(spec: JoinSpec) -> Meta:
    """The record of a new partition."""
    return Meta(dict(spec.fingerprint), uuid.uuid4().hex, uuid.uuid4().hex)


def check_fingerprint(meta: Meta, spec: JoinSpec, where: str) -> None:
    """Refuse state of another join, and say what differs."""
    was, now = meta.fingerprint, spec.fingerprint
    changed = [
        f"  {name}\n    was  {was.get(name, 'nothing')}\n    is   {now.get(name, 'nothing')}"
        for name in dict.fromkeys([*was, *now])
        if was.get(name) != now.get(name)
    ]
    if changed:
        raise StateError(
            f"{where}: the checkpoint holds the state of another join; it differs in\n"
            + "\n".join(changed)
            + "\nRestore what it was, or start with a new checkpoint location."
        )


def _fetched(blobs: Blobs, run: RunBlob, where: str) -> bytes:
    blob = blobs.get(run.id)
    if blob is None:
        raise DataError(
            f"{where}: run {run.id} of the {run.side} side ({run.rows} rows) is missing; the "
            "checkpoint is damaged, so the query stops rather than lose rows"
        )
    digest = digest_like(run.digest, blob)
    if len(blob) != run.bytes or digest != run.digest:
        raise DataError(
            f"{where}: run {run.id} of the {run.side} side ({run.rows} rows) is corrupt: expected "
            f"{run.bytes} bytes with digest {run.digest}, read {len(blob)} bytes with {digest}; "
            "the query stops rather than lose rows. Restore the checkpoint, or start with a new one"
        )
    return blob


def _read_flags(
    store: StateStore, opened: OpenPartition, where: str
) -> dict[Side, dict[Side, NDArray[np.bool_]]]:
    roles = opened.partition.tracked
    rows = {side: sum(run.rows for run in opened.runs(side)) for side in roles}
    total = sum(len(tracked) * rows[side] for side, tracked in roles.items())
    if not total:
        return {}
    blob = store.get(_FLAGS)
    if blob is None or len(blob) != -(-total // 8):
        raise DataError(
            f"{where}: the match flags are damaged: expected {-(-total // 8)} bytes, read "
            f"{'none' if blob is None else len(blob)}; restore the checkpoint, or start a new one"
        )
    bits = np.unpackbits(np.frombuffer(blob, np.uint8), count=total).astype(np.bool_)
    flags: dict[Side, dict[Side, NDArray[np.bool_]]] = {}
    at = 0
    for side, tracked in roles.items():
        flags[side] = {}
        for role in tracked:
            flags[side][role] = bits[at : at + rows[side]]
            at += rows[side]
    return flags


def _restore_ranks(store: StateStore, opened: OpenPartition, spec: JoinSpec, where: str) -> None:
    census: dict[Side, Census] = {}
    for side in Side:
        facts, blob = opened.meta.ranks[side.value], store.get(f"{_RANKS}-{side.value}")
        if blob is None:
            raise DataError(
                f"{where}: the ranks are missing in the state store; the checkpoint is damaged. "
                "Restore it, or start with a new one"
            )
        pending = np.frombuffer(blob, np.int64)
        census[side] = Census(pending, facts["released"] or 0, facts["last"])
    waiting: dict[Side, pa.RecordBatch] = {}
    for side in Side:
        blob = store.get(f"{_WAITING}-{side.value}")
        if blob:
            waiting[side] = read_blob(pa.py_buffer(blob)).select(spec.stored(side))
    opened.partition.restore_ranks(census, waiting)


def _size_class(run: RunBlob) -> int:
    """Runs within a factor of ``TIER`` count as alike."""
    return int(np.log2(max(run.rows, 1)) // np.log2(TIER))
