"""Everyone who competes, by name. Registering a contestant is what tests and benchmarks it.

:mod:`engine` is thetastream itself. Of the others, which share :mod:`window`, :mod:`duckdb` and
:mod:`polars` ask a query per push, :mod:`ordered` keeps ordered sets, and :mod:`numpy_scan` is a
nested loop. A module imports its peer's package only when the peer is made, so the registry can be
read without any of them installed.
"""

from __future__ import annotations

from thetabench.contestant import Contestant, parse_spec
from thetabench.peers.duckdb import DuckDBBucket, DuckDBRange
from thetabench.peers.engine import Thetastream
from thetabench.peers.numpy_scan import NumpyScan
from thetabench.peers.ordered import BTreesJoin, SortedListJoin
from thetabench.peers.polars import PolarsBucket, PolarsWhere
from thetabench.query import Query
from thetastream.errors import RegistryError, suggest

PEERS: dict[str, type[Contestant]] = {
    kind.name: kind
    for kind in (
        *(Thetastream, DuckDBBucket, DuckDBRange, PolarsBucket, PolarsWhere),
        *(BTreesJoin, SortedListJoin, NumpyScan),
    )
}
"""All contestants; the first is thetastream itself."""

HOME = Thetastream.name
"""The contestant whose ratio to the best other one is reported."""


def contestant_class(spec: str) -> type[Contestant]:
    """The class behind ``name`` or ``name:option=value``."""
    name, _ = parse_spec(spec)
    if name not in PEERS:
        raise RegistryError(
            f"contestant must be one of {', '.join(PEERS)}; got {name!r}.{suggest(name, PEERS)}"
        )
    return PEERS[name]


def create(spec: str, query: Query) -> Contestant:
    """Make a contestant for a query."""
    _, options = parse_spec(spec)
    return contestant_class(spec)(query, **options)
