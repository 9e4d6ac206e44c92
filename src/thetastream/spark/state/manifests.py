"""The state of a partition in files alone: a record per micro-batch, beside the runs it names.

    <state_path>/<query id>/<partition>/<batch>.state      after a micro-batch: the record, and the
                                                           match flags, ranks and waiting rows
    <state_path>/<lineage>/<run>.arrow                     runs (``folder``)

Micro-batch ``b`` always starts from the file of ``b - 1`` and writes that of ``b``, last and as a
whole. Spark plans which rows belong to ``b`` before it starts, and plans the same ones when a task
or the query is run again. Several attempts may write the file of ``b``, one after the other or at
the same time; the last one stays. All of them describe the same rows, though in another order, as
packed rows arrive in any order. So flags must never be read beside the record of another attempt:
that is why both are one file. No attempt reads what another one of the same micro-batch wrote.

Keeping the first file instead of the last would not be safer: after a restart from an older version
of the checkpoint, micro-batch ``b`` may have other rows. Files stay for ``GRACE`` micro-batches.
"""

from __future__ import annotations

import json
from itertools import accumulate, pairwise

import pyarrow as pa

from thetastream.errors import DataError
from thetastream.spark.state.digest import digest_of
from thetastream.spark.state.folder import GRACE, FileTree

_RECORD = "record"


class Manifests:
    """The files of one partition, as a ``StateStore``, for one micro-batch of a query."""

    def __init__(self, path: str, query: str, partition: int, batch: int) -> None:
        self._tree = FileTree(path, f"{query}/{partition}")
        self._batch = batch
        self._where = f"partition {partition} of query {query}"
        self._found: dict[str, bytes] = {}
        self._fresh: dict[str, bytes | pa.Buffer] = {}

    def read_meta(self) -> str | None:
        """The record after the micro-batch before; None in the first one."""
        if not self._batch:
            return None
        before = self._batch - 1
        data = self._tree.get(f"{before}.state")
        if data is None:
            raise DataError(
                f"{self._where}: micro-batch {self._batch} needs the record of micro-batch "
                f"{before} in state_path, and there is none. Either the folder is not the one that "
                "this checkpoint was used with, or a sink did not read the whole answer of that "
                "micro-batch (such as a foreachBatch that takes its first rows only), or the "
                "checkpoint was written with a state store. Restore the folder, or start with a "
                "new checkpoint and a new folder"
            )
        self._found = _unpacked(data, f"{self._where}: the record of micro-batch {before}")
        return self._found[_RECORD].decode()

    def write_meta(self, text: str) -> None:
        """Write the state after this micro-batch, and remove a file that no restart needs."""
        self._tree.put(f"{self._batch}.state", _packed({_RECORD: text.encode(), **self._fresh}))
        self._tree.remove(f"{self._batch - GRACE}.state")

    def get(self, name: str) -> bytes | None:
        """A blob of the micro-batch before, after its record has been read."""
        return self._found.get(name)

    def put(self, name: str, data: bytes | pa.Buffer) -> None:
        """Keep a blob of this micro-batch, to be written with the record."""
        self._fresh[name] = data

    def remove(self, name: str, size: int = 0) -> None:
        """Leave out a blob of this micro-batch."""
        self._fresh.pop(name, None)


def _packed(parts: dict[str, bytes | pa.Buffer]) -> bytes:
    """A line with a digest of the rest, a line with the sizes of the parts, the parts."""
    sizes = json.dumps({name: len(part) for name, part in parts.items()})
    rest = b"".join((sizes.encode(), b"\n", *parts.values()))
    return digest_of(rest).encode() + b"\n" + rest


def _unpacked(data: bytes, where: str) -> dict[str, bytes]:
    """The parts again; DataError if they are not what was written."""
    digest, _, rest = data.partition(b"\n")
    if digest != digest_of(rest).encode():
        raise DataError(
            f"{where} is corrupt: its digest is not that of its {len(rest)} bytes; the query stops "
            "rather than lose rows. Restore the folder, or start with a new checkpoint and a new "
            "folder"
        )
    line, _, body = rest.partition(b"\n")
    sizes = json.loads(line)
    edges = accumulate(sizes.values(), initial=0)
    return {name: body[a:b] for name, (a, b) in zip(sizes, pairwise(edges), strict=True)}
