"""The whole state of a partition in files: attempts that overtake each other, and damage."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pyarrow as pa
import pytest

from thetastream.errors import DataError
from thetastream.side import Side
from thetastream.spark.state import manifests
from thetastream.spark.state.manifests import Manifests
from thetastream.spark.theta.packing import Packer
from thetastream.spark.theta.spec import JoinSpec
from thetastream.spark.theta.step import ALIVE, Packet, Step, packets_of

from ..simulate import Torn, pairs_of
from .steps import feed, spec

pytestmark = pytest.mark.usefixtures("own_runs")


def in_files(folder: Path, how: str = "inner") -> JoinSpec:
    return dataclasses.replace(spec(how), state_path=str(folder / "state"), in_files=True)


def at(join: JoinSpec, batch: int, kind: type[Manifests] = Manifests) -> Manifests:
    assert join.state_path is not None
    return kind(join.state_path, "query", 0, batch)


def packed(join: JoinSpec, side: Side, sender: int, **columns: int) -> list[Packet]:
    """One row, packed by a task."""
    table = pa.table({name: pa.array([value], pa.int64()) for name, value in columns.items()})
    rows = table.rename_columns({"row": "row number"})
    batches = Packer(join, side).pack(rows.to_batches(), sender)
    return [packet for batch in batches for packet in packets_of(batch.to_pydict())]


def attempt(join: JoinSpec, store: Manifests, packets: list[Packet]) -> list[int | None]:
    """Join a micro-batch in a new process; return the left rows of the answer."""
    ALIVE._held.clear()
    step = Step(join, join.keys[0], store, None)
    return [left for batch in step.run(packets) for left, _ in pairs_of(batch)]


@pytest.mark.parametrize("late", [Torn, Manifests])
def test_flags_are_never_read_beside_the_record_of_another_attempt(
    tmp_path: Path, late: type[Manifests]
) -> None:
    """An attempt goes on after another has succeeded, and stores the same rows in another order."""
    join = in_files(tmp_path, "semi")
    packets = [
        *packed(join, Side.LEFT, 0, x=10, t=1, row=0),
        *packed(join, Side.LEFT, 1, x=50, t=2, row=1),
        *packed(join, Side.RIGHT, 2, x=10, t=3, row=0),
    ]
    assert attempt(join, at(join, 0), packets) == [0]
    assert attempt(join, at(join, 0, late), packets[::-1]) == [0]
    later = [
        *packed(join, Side.RIGHT, 0, x=10, t=4, row=1),
        *packed(join, Side.RIGHT, 1, x=50, t=5, row=2),
    ]
    assert attempt(join, at(join, 1), later) == [1], "row 0 has had its match"


def test_a_damaged_file_stops_the_query(tmp_path: Path) -> None:
    join = in_files(tmp_path, "semi")
    feed(join, at(join, 0), range(1, 21))
    assert at(join, 1).read_meta()
    (path,) = (tmp_path / "state").rglob("*.state")
    data = path.read_bytes()
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        with pytest.raises(DataError, match="the record of micro-batch 0 is corrupt"):
            at(join, 1).read_meta()
    path.write_bytes(data[:-1])
    with pytest.raises(DataError, match="is corrupt.*Restore the folder"):
        at(join, 1).read_meta()


def test_files_go_when_no_restart_needs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifests, "GRACE", 3)
    join = in_files(tmp_path)
    for batch in range(8):
        feed(join, at(join, batch), range(1 + 20 * batch, 21 + 20 * batch))
    assert {path.stem for path in (tmp_path / "state").rglob("*.state")} == {"5", "6", "7"}
