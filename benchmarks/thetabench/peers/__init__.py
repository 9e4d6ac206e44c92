"""Everyone who competes, by name. Registering a contestant is what tests and benchmarks it.

A module here imports its peer's package only when the peer is made, so the registry can be read
without any of them installed.
"""

from __future__ import annotations

from thetabench.contestant import Contestant, parse_spec
from thetabench.peers.btrees import BTreesJoin
from thetabench.peers.duckdb_bucket import DuckDBBucket
from thetabench.peers.duckdb_range import DuckDBRange
from thetabench.peers.engine import Thetastream
from thetabench.peers.numpy_scan import NumpyScan
from thetabench.peers.polars_bucket import PolarsBucket
from thetabench.peers.polars_where import PolarsWhere
from thetabench.peers.sorted_list import SortedListJoin
from thetabench.query import Query
from thetastream.errors import RegistryError, suggest

PEERS: dict[str, type[Contestant]] = {
    kind.name: kind
    for kind in (
        Thetastream,
        DuckDBBucket,
        DuckDBRange,
        PolarsBucket,
        PolarsWhere,
        BTreesJoin,
        SortedListJoin,
        NumpyScan,
    )
}
"""All contestants; the first is thetastream itself."""

HOME = Thetastream.name
"""The contestant whose ratio to the best other one is reported."""


def contestant_class(spec: str) -> type[Contestant]:
    """Give the class behind ``name`` or ``name:option=value``."""
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
