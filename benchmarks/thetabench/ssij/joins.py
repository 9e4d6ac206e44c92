"""The contestants as joins: SSIJ, MeshJoin and index nested loops, on a device, within a budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from thetabench.contestant import Unavailable
from thetabench.ssij.drive import Join, Watch
from thetabench.ssij.plan import Contestant, Device
from thetastream.errors import RegistryError, RelationError
from thetastream.relation.disk.clock import PROFILES, SimulatedClock
from thetastream.relation.store import Relation

__all__ = ["Entered", "Maker", "enter", "start_device"]

ON = "l.key = r.key"

Maker = Callable[[Contestant, Path, int, Device, pa.Schema], "Entered"]
"""Starts a contestant: the folder of the relation, bytes of memory, the device, the stream."""


@dataclass
class Entered:
    """A join that was started, with the relation and the watch that belong to it."""

    join: Join
    watch: Watch


class _Closing:
    """A join that closes its relation too."""

    def __init__(self, join: Any, relation: Any) -> None:
        self._join = join
        self._relation = relation

    def __getattr__(self, name: str) -> Any:
        return getattr(self._join, name)

    def close(self) -> None:
        """Close both."""
        if hasattr(self._join, "close"):
            self._join.close()
        self._relation.close()


def start_device(path: Path, device: Device) -> tuple[Any, Any]:
    """Open a relation on a device: it, and the clock to be used (None: the machine's own)."""
    if not device.simulated:
        return Relation.open(path, direct=True), None
    clock = SimulatedClock(PROFILES[device.value])
    return Relation.open(path, device=device.value, clock=clock), clock


def enter(who: Contestant, path: Path, budget: int, device: Device, schema: pa.Schema) -> Entered:
    """Start a join; one that says that it cannot work within the budget is not available."""
    try:
        relation, clock = start_device(path, device)
        try:
            join = _made(who, relation, budget, clock, schema)
        except BaseException:
            relation.close()
            raise
    except RelationError as error:
        raise Unavailable(str(error)) from None
    return Entered(_Closing(join, relation), Watch(clock))


def _made(who: Contestant, relation: Any, budget: int, clock: Any, schema: pa.Schema) -> Any:
    options: dict[str, Any] = {"memory": budget, "schema": schema, **dict(who.parameters)}
    if clock is not None:
        options["clock"] = clock
    match who.method:
        case "ssij":
            from thetastream.relation.join.join import RelationJoin

            return RelationJoin(relation, ON, **options)
        case "mesh":
            from thetabench.rivals.mesh import MeshJoin

            return MeshJoin(relation, ON, **options)
        case "nested" | "batched":
            from thetabench.rivals.nested import IndexNestedLoop

            return IndexNestedLoop(relation, ON, batched=who.method == "batched", **options)
    raise RegistryError(f"method must be ssij, mesh, nested or batched; got {who.method!r}.")
