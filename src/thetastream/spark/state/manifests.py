"""The state of a partition in files alone: a record per micro-batch, beside the runs it names.

    <state_path>/<query id>/<partition>/<batch>.json           the record after a micro-batch
    <state_path>/<query id>/<partition>/<batch>.<name>.blob    match flags, ranks, waiting rows
    <state_path>/<lineage>/<run>.arrow                         runs (``folder``)

Micro-batch ``b`` always starts from the record of ``b - 1`` and writes that of ``b``, last and as a
whole. Spark plans which rows belong to ``b`` before it starts, and plans the same ones when a task
or the query is run again. So whichever attempt writes the record last, it describes the same rows,
and no attempt reads what another one of the same micro-batch wrote. Records stay for ``GRACE``
micro-batches.
"""

from __future__ import annotations

import pyarrow as pa

from thetastream.errors import DataError
from thetastream.spark.state.folder import GRACE, FileTree


class Manifests:
    """The files of one partition, as a ``StateStore``, for one micro-batch of a query."""

    def __init__(self, path: str, query: str, partition: int, batch: int) -> None:
        self._tree = FileTree(path, f"{query}/{partition}")
        self._batch = batch
        self._where = f"partition {partition} of query {query}"

    def read_meta(self) -> str | None:
        """The record after the micro-batch before; None in the first one."""
        if not self._batch:
            return None
        record = self._tree.get(f"{self._batch - 1}.json")
        if record is None:
            raise DataError(
                f"{self._where}: micro-batch {self._batch} needs the record of micro-batch "
                f"{self._batch - 1} in state_path, and there is none. Either the folder is not the "
                "one that this checkpoint was used with, or a sink did not read the whole answer "
                "of that micro-batch (such as a foreachBatch that takes its first rows only), or "
                "the checkpoint was written with a state store. Restore the folder, or start with "
                "a new checkpoint and a new folder"
            )
        return record.decode()

    def write_meta(self, text: str) -> None:
        """Write the record of this micro-batch, and remove one that no restart needs."""
        self._tree.put(f"{self._batch}.json", text.encode())
        self._tree.remove(f"{self._batch - GRACE}.json")

    def get(self, name: str) -> bytes | None:
        """A blob of the micro-batch before."""
        return self._tree.get(f"{self._batch - 1}.{name}.blob")

    def put(self, name: str, data: bytes | pa.Buffer) -> None:
        """Write a blob of this micro-batch."""
        self._tree.put(f"{self._batch}.{name}.blob", data)
        self._tree.remove(f"{self._batch - GRACE}.{name}.blob")

    def remove(self, name: str, size: int = 0) -> None:
        """Blobs of this micro-batch are not written unless they are needed."""
