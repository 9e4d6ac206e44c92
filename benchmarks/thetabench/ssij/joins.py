"""The contestants as joins: SSIJ, MeshJoin and index nested loops, on a device, within a budget."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from thetabench.contestant import Unavailable
from thetabench.rivals.mesh import MeshJoin
from thetabench.rivals.nested import IndexNestedLoop
from thetabench.ssij.contestant import Contestant, Device
from thetabench.ssij.drive import Join
from thetastream.errors import RegistryError, RelationError
from thetastream.relation.disk.clock import PROFILES, SimulatedClock
from thetastream.relation.join.join import RelationJoin
from thetastream.relation.store import Relation

ON = "l.key = r.key"
KINDS: dict[str, Callable[..., Any]] = {
    "ssij": RelationJoin,
    "mesh": MeshJoin,
    "nested": lambda *given, **options: IndexNestedLoop(*given, batched=False, **options),
    "batched": lambda *given, **options: IndexNestedLoop(*given, batched=True, **options),
}

Maker = Callable[[Contestant, Path, int, Device, pa.Schema], tuple[Join, Any]]
"""Starts a contestant: the folder of the relation, bytes of memory, the device, the stream.

Returns the join and its simulated clock, None for the machine's own."""


class _Closing:
    """A join that closes its relation too."""

    def __init__(self, join: Any, relation: Relation) -> None:
        self._join = join
        self._relation = relation

    def __getattr__(self, name: str) -> Any:
        return getattr(self._join, name)

    def close(self) -> None:
        """Close both."""
        if hasattr(self._join, "close"):
            self._join.close()
        self._relation.close()


def make(
    who: Contestant, path: Path, budget: int, device: Device, schema: pa.Schema
) -> tuple[Join, Any]:
    """Start a join; one that says that it cannot work within the budget is not available."""
    if who.structure not in KINDS:
        raise RegistryError(f"method must be one of {', '.join(KINDS)}; got {who.structure!r}.")
    options: dict[str, Any] = {"memory": budget, "schema": schema, **dict(who.parameters)}
    clock = SimulatedClock(PROFILES[device.value]) if device.simulated else None
    own: dict[str, Any] = {"device": device.value, "clock": clock} if clock else {"direct": True}
    if clock is not None:
        options["clock"] = clock
    try:
        relation = Relation.open(path, **own)
        try:
            return _Closing(KINDS[who.structure](relation, ON, **options), relation), clock
        except BaseException:
            relation.close()
            raise
    except RelationError as error:
        raise Unavailable(str(error)) from None
