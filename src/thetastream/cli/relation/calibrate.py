"""``thetastream relation calibrate``: measures a seek and a block on a relation's device."""

from __future__ import annotations

import json as json_text
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from thetastream.cli.options import Json
from thetastream.cli.progress import WorkLine

if TYPE_CHECKING:
    from thetastream.relation.disk.calibrate import Calibration


EPILOG = """\
Examples:

  thetastream relation calibrate parts.rel

  thetastream relation calibrate --seconds 1 --block-bytes 65536

  thetastream relation calibrate --profile disk
"""


def calibrate(
    path: Annotated[
        Path | None,
        typer.Argument(help="A relation, file or folder on the device; by default this folder."),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(help="Show a simulated device instead: disk, ssd or object-store."),
    ] = None,
    block_bytes: Annotated[
        int | None,
        typer.Option(min=512, help="Size of a block; by default the relation's, or 8,192."),
    ] = None,
    depth: Annotated[int, typer.Option(min=1, help="Concurrent reads.")] = 4,
    seconds: Annotated[float, typer.Option(help="How long to measure.")] = 2.0,
    cached: Annotated[
        bool, typer.Option("--cached", help="Read through the system's page cache.")
    ] = False,
    json: Json = False,
) -> None:
    """Measure the cost of a seek and of transferring a block: S and T of the read plan.

    Reads at random places, past the system's page cache: from the relation, or from a temporary
    file of 128 MiB if it is small. Best on an idle machine.
    """
    from thetastream.relation.disk.calibrate import calibrate as measure

    place = Path() if path is None else path
    size = block_bytes or _block_bytes(place)
    if profile is not None:
        calibration = _simulated(profile, size)
    else:
        with WorkLine(Console(stderr=True)) as line:
            calibration = measure(
                place, size, depth=depth, direct=not cached, seconds=seconds, progress=line.show
            )
    typer.echo(json_text.dumps(asdict(calibration), indent=2) if json else str(calibration))


def _block_bytes(path: Path) -> int:
    import thetastream as ts
    from thetastream.relation.files.folder import Folder

    if not Folder(path).exists():
        return 8192
    with ts.Relation.open(path) as relation:
        return relation.block_bytes


def _simulated(name: str, block_bytes: int) -> Calibration:
    from thetastream.relation.disk.calibrate import Calibration
    from thetastream.relation.disk.device import costs_of

    costs = costs_of(name, block_bytes)
    remark = f"the simulated device {name!r}: nothing was measured"
    return Calibration(costs.seek, costs.transfer, block_bytes, 1, True, remark)
