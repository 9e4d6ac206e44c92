"""Tables of TPC-H, made by ``tpchgen-cli`` (a package of that name, in ``thetastream[datasets]``).

Nothing is loaded from anywhere: the generator runs as a process of its own and writes Parquet files
into a temporary folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from thetastream.errors import DataError

TPCH_TABLES = {
    "customer": 150_000,
    "lineitem": 6_001_215,
    "nation": 25,
    "orders": 1_500_000,
    "part": 200_000,
    "partsupp": 800_000,
    "region": 5,
    "supplier": 10_000,
}
"""Names of the tables, and their rows at scale factor 1."""

_COMMAND = "tpchgen-cli"
_SECONDS = 600.0
_SPARE = 1.1  # parts of a table are not equally long


def tpch_table(name: str, scale_factor: float = 1.0, *, rows: int | None = None) -> pa.Table:
    """Give a table of TPC-H; with ``rows`` only its first rows, without making the others.

    Decimals stay decimals. Costs a process, and about a second per three million rows.
    """
    if name not in TPCH_TABLES:
        raise DataError(f"a table of TPC-H is one of {', '.join(TPCH_TABLES)}; got {name!r}.")
    if scale_factor <= 0 or (rows is not None and rows < 0):
        raise DataError(
            f"scale_factor must be above 0 and rows not negative; got {scale_factor} and {rows}."
        )
    with tempfile.TemporaryDirectory(prefix="thetastream-tpch-") as folder:
        _generate(name, scale_factor, rows, Path(folder))
        files = sorted(Path(folder).rglob("*.parquet"))
        table = pa.concat_tables([pq.read_table(file) for file in files])
    return table if rows is None else table.slice(0, rows).combine_chunks()


def _generate(name: str, scale_factor: float, rows: int | None, folder: Path) -> None:
    arguments = [
        _found(), "parquet", "--scale-factor", f"{scale_factor:g}", "--tables", name,
        "--output-dir", str(folder),
    ]  # fmt: skip
    if rows is not None:
        parts = int(TPCH_TABLES[name] * scale_factor / max(rows * _SPARE, 1))
        if parts > 1:
            arguments += ["--parts", str(parts), "--part", "1"]
    done = subprocess.run(
        arguments, capture_output=True, text=True, timeout=_SECONDS, check=False
    )  # fmt: skip
    if done.returncode:
        raise DataError(f"{_COMMAND} made no table {name}: {done.stderr.strip()[-300:]}")


def _found() -> str:
    """The generator beside this Python, or on the path."""
    beside = Path(sys.executable).parent
    command = shutil.which(_COMMAND, path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}")
    if command is None:
        raise DataError(f"{_COMMAND} is not installed: pip install thetastream[datasets]")
    return command
