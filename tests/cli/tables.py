"""Tables saved to files of any format, and read back as rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from thetastream.cli.files import InputFile, Target


def save(path: Path, rows: list[dict[str, Any]] | pa.Table) -> str:
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows)
    with Target(path, table.schema, force=True) as target:
        for batch in table.to_batches():
            target.write(batch)
    return str(path)


def load(path: Path) -> list[dict[str, Any]]:
    return [row for batch in InputFile(path, 1000) for row in batch.to_pylist()]
