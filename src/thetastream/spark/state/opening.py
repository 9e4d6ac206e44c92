"""Opening a partition: restore it from its runs, or bring one that is alive up to date.

An engine that was alive in this process may be some micro-batches behind, because another process
had the partition since. It *catches up*: it stores the rows of the runs that were added, and takes
over match flags and ranks. *Attaching* is the same for an empty engine. Rows come from run files of
this host; a file that is missing or damaged is read from the state store (*rebuild*).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream.boxes.arrival import Census
from thetastream.errors import DataError
from thetastream.side import Side
from thetastream.spark.blobs import read_blob
from thetastream.spark.state.cache import RunFiles
from thetastream.spark.state.digest import digest_of, is_trusted
from thetastream.spark.state.folder import RunFolder
from thetastream.spark.state.record import Meta, RunBlob, StateStore, new_meta
from thetastream.spark.state.state import FLAGS, RANKS, WAITING, OpenPartition, fetched
from thetastream.spark.theta.spec import JoinSpec


def new_partition(
    spec: JoinSpec, lineage: str | None = None, root: Path | None = None
) -> OpenPartition:
    """An empty partition, of a new lineage or for the state of a known one.

    ``root`` is the folder of run files on this host, if not the default.
    """
    meta = new_meta(spec.fingerprint)
    meta.lineage = lineage or meta.lineage
    folder = None if spec.state_path is None else RunFolder(spec.state_path, meta.lineage)
    files = RunFiles(meta.lineage, root, state=None if folder is None else folder.local)
    return OpenPartition(spec.partition(), meta, {}, files, folder)


def open_partition(
    store: StateStore, spec: JoinSpec, meta: Meta, where: str, root: Path | None = None
) -> tuple[OpenPartition, int]:
    """Restore a partition; also return how many runs were read from the state store."""
    opened = new_partition(spec, meta.lineage, root)
    opened.files.touch()
    if not opened.mapped:  # otherwise they are the state, and another attempt may be writing
        opened.files.keep_only({run.id for run in meta.runs})
    return opened, catch_up(opened, store, spec, meta, where)


def catch_up(
    opened: OpenPartition, store: StateStore, spec: JoinSpec, meta: Meta, where: str
) -> int:
    """Bring a partition to the state of a later record; return how many runs were fetched."""
    partition = opened.partition
    reader = _Reader(opened, store, where)
    firsts: dict[str, int] = {}
    missed: dict[Side, list[pa.RecordBatch]] = {}
    for side in spec.streams:
        known, after = opened.meta.stored.get(side.value, 0), partition.next_id(side)
        missed[side] = []
        for run in meta.of_side(side):
            firsts[run.id] = after if run.start >= known else _first(opened, side, run.start)
            if run.end > known:
                rows = reader.read(run).select(spec.stored(side)).slice(max(0, known - run.start))
                missed[side].append(rows)
                after += rows.num_rows
    partition.restore(missed)
    opened.meta, opened.firsts = meta, firsts
    _restore_flags(store, opened, where)
    partition.tops = {
        side: meta.tops[side.value] for side in spec.streams if side.value in meta.tops
    }
    if spec.ranked:
        _restore_ranks(store, opened, spec, where)
    return reader.fetched


def _first(opened: OpenPartition, side: Side, number: int) -> int:
    """The id of a stored row by its number. Runs are merged only if their numbers follow."""
    (run,) = (run for run in opened.meta.of_side(side) if run.start <= number < run.end)
    return opened.firsts[run.id] + number - run.start


@dataclass
class _Reader:
    """Reads runs from the files of this host, else from the state store."""

    opened: OpenPartition
    store: StateStore
    where: str
    fetched: int = 0

    def read(self, run: RunBlob) -> pa.RecordBatch:
        files = self.opened.files
        buffer = files.read(run.id, run.bytes, run.digest)
        if buffer is None:
            blob = fetched(self.opened.folder or self.store, run, self.where)
            if not self.opened.mapped:
                files.write(run.id, blob)
            if not is_trusted(run.digest):
                run.digest = digest_of(blob)
            buffer = pa.py_buffer(blob)
            self.fetched += 1
        return read_blob(buffer)


def _restore_flags(store: StateStore, opened: OpenPartition, where: str) -> None:
    partition = opened.partition
    runs = {side: opened.meta.of_side(side) for side in partition.tracked}
    rows = {side: sum(run.rows for run in of_side) for side, of_side in runs.items()}
    total = sum(len(roles) * rows[side] for side, roles in partition.tracked.items())
    blob = store.get(FLAGS) if total else b""
    if blob is None or len(blob) != -(-total // 8):
        raise DataError(
            f"{where}: the match flags are damaged: expected {-(-total // 8)} bytes, read "
            f"{'none' if blob is None else len(blob)}; restore the checkpoint, or start a new one"
        )
    bits = np.unpackbits(np.frombuffer(blob, np.uint8), count=total).astype(np.bool_)
    for side, roles in partition.tracked.items():
        for role in roles:
            flags: list[tuple[int, NDArray[np.bool_]]] = []
            for run in runs[side]:
                flags.append((opened.firsts[run.id], bits[: run.rows]))
                bits = bits[run.rows :]
            partition.restore_flags(side, role, flags)


def _restore_ranks(store: StateStore, opened: OpenPartition, spec: JoinSpec, where: str) -> None:
    census: dict[Side, Census] = {}
    for side in Side:
        facts, blob = opened.meta.ranks[side.value], store.get(f"{RANKS}-{side.value}")
        if blob is None:
            raise DataError(
                f"{where}: the ranks are missing in the state store; the checkpoint is damaged. "
                "Restore it, or start with a new one"
            )
        pending = np.frombuffer(blob, np.int64)
        census[side] = Census(pending, facts["released"] or 0, facts["last"])
    waiting: dict[Side, pa.RecordBatch] = {}
    for side in Side:
        blob = store.get(f"{WAITING}-{side.value}")
        if blob:
            waiting[side] = read_blob(pa.py_buffer(blob)).select(spec.stored(side))
    opened.partition.restore_ranks(census, waiting)
