"""thetastream itself, through its public names only.

Options: ``tactic`` and ``threads``, as in ``thetastream:tactic=auto,threads=2``. With
``output=count`` it returns the number of each row's matches instead: not an answer that a benchmark
of peers can check, but what the benchmark of PanJoin asks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa

from thetabench.contestant import PHASES
from thetabench.query import Query
from thetastream.side import Side

_ANSWER = pa.schema([("id", pa.int64()), ("id_right", pa.int64())])
_COUNTS = pa.schema([("side", pa.string()), ("row", pa.int64()), ("matches", pa.int64())])
_PREFILL_ROWS = 1 << 15


class Thetastream:
    """A `StreamJoin` with a count window that answers the two ids."""

    name: ClassVar[str] = "thetastream"
    packages: ClassVar[tuple[str, ...]] = ("thetastream", "numba", "numpy", "pyarrow")

    def __init__(
        self, query: Query, *, tactic: str = "auto", threads: str = "1", output: str = "rows"
    ) -> None:
        import thetastream as ts

        rows = output == "rows"
        self._schema = _ANSWER if rows else _COUNTS
        self._join: Any = ts.StreamJoin(
            query.predicate,
            window=ts.CountWindow(query.window),
            tactic=tactic,
            threads=int(threads),
            self_join=query.self_join,
            columns=["id", "id_right"] if rows else None,
            output=output,
        )

    @classmethod
    def supports(cls, query: Query) -> bool:
        return True

    @classmethod
    def push_seconds(cls, query: Query, batch: int) -> float:
        return 0.0

    def prefill(self, left: pa.Table, right: pa.Table | None) -> None:
        """Push the rows in pieces, so that the index has the shape it has in a running join.

        All left rows come before all right rows. The answers are not read: rows are produced
        lazily.
        """
        for side, rows in zip(Side, (left, right), strict=True):
            if rows is None:
                continue
            for start in range(0, rows.num_rows, _PREFILL_ROWS):
                self._join.push(**{side.value: rows.slice(start, _PREFILL_ROWS)})

    def push(self, side: Side, rows: pa.RecordBatch) -> pa.Table:
        return pa.Table.from_batches(list(self._join.push(**{side.value: rows})), self._schema)

    def phases(self) -> Mapping[str, float]:
        metrics = self._join.metrics()
        return {phase: float(getattr(metrics, f"{phase}_seconds")) for phase in PHASES}

    def index_bytes(self) -> int:
        return int(self._join.metrics().index_bytes)
