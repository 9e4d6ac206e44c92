"""The state of a partition in Spark's state store: a short record, and immutable runs.

    meta       format, fingerprint, lineage, token, the list of runs with sizes and digests
    <run>      rows that one micro-batch stored, or several small runs compacted into one
    flags      a bit per row and role: has it matched? (outer, semi and anti joins)
    ranks-…    per side the ranks of all waiting rows, in any partition (count windows)
    waiting-…  per side the rows that wait here (count windows)

With a ``state_path``, runs are files there (``folder``), and the state store holds the rest.

A micro-batch writes its own rows once, the flags if there are any, and the record; expired runs are
removed as a whole. Every write creates a new token, by which a live partition is recognized
(``opening``).
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa

from thetastream.data.batch import joined
from thetastream.engine.partition.partition import Partition
from thetastream.errors import DataError
from thetastream.side import Side
from thetastream.spark.blobs import pieces, read_blob, write_blob
from thetastream.spark.state.cache import RunFiles
from thetastream.spark.state.digest import digest_like, digest_of
from thetastream.spark.state.folder import GRACE, RunFolder
from thetastream.spark.state.record import Blobs, Meta, RunBlob, StateStore
from thetastream.spark.theta.spec import JoinSpec

RUN_BYTES = 8 << 20
TIER = 8
ENTRY_BYTES = 2 << 10
"""What a run is taken to cost every micro-batch, in bytes that could be written instead: its entry
in the record (215 bytes, and 2.3 µs to write and read it), its share of expiries and attaches."""
FLAGS, RANKS, WAITING = "flags", "ranks", "waiting"


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
                start = self.meta.stored.get(stretch.side.value, 0)
                self._add(store, stretch.side, piece, last=stretch.last, first=first, start=start)
                self.meta.stored[stretch.side.value] = start + piece.num_rows
                first += piece.num_rows
        for side in spec.streams:
            self._drop_expired(store, side)
            self._compact(store, side, spec.stored(side))
        if any(self.partition.tracked.values()):
            self._put(store, FLAGS, self._packed_flags())
        if spec.ranked:
            self._save_ranks(store)
        self.meta.renew()
        text = self.meta.as_text()
        store.write_meta(text)
        self.written += len(text)

    def _add(
        self,
        store: StateStore,
        side: Side,
        rows: pa.RecordBatch,
        *,
        last: int,
        first: int,
        start: int,
    ) -> None:
        """Write a run, whose first row has the id ``first`` and the number ``start``."""
        data = write_blob(rows)
        name, digest = uuid.uuid4().hex, digest_of(data)
        run = RunBlob(name, side.value, rows.num_rows, data.size, digest, last, start)
        self._put(self.folder or store, run.id, data)
        if not self.mapped:
            self.files.write(run.id, data)
        self.meta.runs.append(run)
        self.firsts[run.id] = first

    @property
    def mapped(self) -> bool:
        """Whether the folder's own files can be mapped, so that no copies are needed."""
        return self.folder is not None and self.folder.local is not None

    def _put(self, blobs: Blobs, name: str, data: bytes | pa.Buffer) -> None:
        blobs.put(name, data)
        self.written += len(data)

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
            self._drop(store, [run for run in self.meta.of_side(side) if run.last < horizon])

    def _compact(self, store: StateStore, side: Side, columns: list[str]) -> None:
        """Merge the newest ``TIER`` runs while they are of one size class and were stored in a row.

        Merging writes their rows once more, which pays for small runs and for long records: so the
        runs may be the larger, the more of them there are.
        """
        while True:
            runs = self.meta.of_side(side)
            tail = runs[-TIER:]
            if len(tail) < TIER or len({_size_class(run) for run in tail}) > 1:
                return
            limit = min(RUN_BYTES, TIER * ENTRY_BYTES * len(runs))
            if sum(run.bytes for run in tail) > limit or not _is_gapless(tail):
                return
            batch = joined([self._batch(store, run).select(columns) for run in tail])
            first, last = self.firsts[tail[0].id], max(run.last for run in tail)
            self._drop(store, tail)
            self._add(store, side, batch, last=last, first=first, start=tail[0].start)
            self.compactions += 1

    def _batch(self, store: StateStore, run: RunBlob) -> pa.RecordBatch:
        buffer = self.files.read(run.id, run.bytes, run.digest)
        if buffer is None:
            buffer = pa.py_buffer(fetched(self.folder or store, run, "compaction"))
        return read_blob(buffer)

    # --- Flags and ranks ------------------------------------------------------------------------

    def _packed_flags(self) -> bytes:
        """Bits of all rows of all runs, stream by stream, role by role, run by run."""
        bits = [
            flags[self.firsts[run.id] - low :][: run.rows]
            for side in self.partition.query.streams
            if (low := min((self.firsts[run.id] for run in self.meta.of_side(side)), default=None))
            is not None
            for flags in self.partition.flags(side, low).values()
            for run in self.meta.of_side(side)
        ]
        return np.packbits(np.concatenate(bits)).tobytes() if bits else b""

    def _save_ranks(self, store: StateStore) -> None:
        for side, census in self.partition.census().items():
            self.meta.ranks[side.value] = {"released": census.released, "last": census.last}
            self._put(store, f"{RANKS}-{side.value}", census.pending.tobytes())
        waiting = self.partition.waiting()
        for side in Side:
            name = f"{WAITING}-{side.value}"
            if side in waiting:
                self._put(store, name, write_blob(waiting[side]).to_pybytes())
            else:
                store.remove(name)


def fetched(blobs: Blobs, run: RunBlob, where: str) -> bytes:
    """A run from the state store; DataError if it is missing or damaged."""
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


def _is_gapless(runs: list[RunBlob]) -> bool:
    """Whether no run between these has expired."""
    return all(run.end == after.start for run, after in pairwise(runs))


def _size_class(run: RunBlob) -> int:
    """Runs within a factor of ``TIER`` count as alike."""
    return int(np.log2(max(run.rows, 1)) // np.log2(TIER))
