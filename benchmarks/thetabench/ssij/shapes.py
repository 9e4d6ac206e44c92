"""Sizes of tables and streams at a scale, and the contestants that come up in many figures.

Scale 1 is 1/64 of the paper's Table II: a table of 1.25 million rows of 128 bytes. Rates do not
change with the scale as long as reading decides, since memory and table shrink alike.
"""

from __future__ import annotations

from thetabench.figure import Parameters, Sizes
from thetabench.ssij.plan import Contestant, Shape, Source, Stream, Table

__all__ = [
    "FEW_COLUMNS",
    "KEYS",
    "ROWS",
    "fitting",
    "local",
    "mesh",
    "scaled",
    "ssij",
    "table",
    "zipf",
]

ROWS = 1_250_000
KEYS = 250_000
"""Domain of the keys, as in Table II, at every scale: so a stream row has five matches."""
MESH, SSIJ = "mesh-join", "ssij"
FEW_COLUMNS = "ssij, two columns"
"""Our join giving what the databases' query reads, and not whole rows."""
HOME, STATIC = "relation_join", "spark-static"
"""Contestants on Spark."""
MICRO_BATCHES = 6
_LOCAL_KEYS = ROWS // 16
_LEAST = 3_000  # rows
_ON_DISK = 1.25  # bytes on disk per byte of rows, at a filling factor of 0.8
_SWEEPS = 4  # how often the rows that fit into memory are to be replaced
_FEW, _MANY = 60_000, 500_000  # rows of a stream
_SKEWED = 4  # times as many rows at skew 1, where most are answered from the cache


def scaled(sizes: Sizes, rows: float) -> int:
    """A number of rows.

    >>> scaled(Sizes(0.02), 1_250_000), scaled(Sizes(1e-4), 1_250_000)
    (25000, 3000)
    """
    return max(_LEAST, round(rows * sizes.scale))


def table(sizes: Sizes, *, rows: float = ROWS, fill: float = 0.8) -> Table:
    """The table of most figures."""
    count = scaled(sizes, rows)
    return Table(Source.UNIFORM, count, min(KEYS, count), fill)


def fitting(
    sizes: Sizes,
    memory: float,
    skew: float = 0.0,
    *,
    rows: float = ROWS,
    sweeps: float = _SWEEPS,
) -> int:
    """Rows of a stream: so many that those in memory are replaced several times."""
    fit = memory * rows * _ON_DISK
    more = 1 + (_SKEWED - 1) * skew
    return scaled(sizes, more * min(max(sweeps * fit, _FEW), _MANY))


def zipf(sizes: Sizes, memory: float, skew: float, *, permuted: bool = False) -> Stream:
    """A zipf stream."""
    shape = Shape.PERMUTED if permuted else Shape.ZIPF
    return Stream(shape, fitting(sizes, memory, skew), skew)


def local(sizes: Sizes) -> tuple[Table, Stream]:
    """Temporal locality: 16 rows per key, as in the paper, and a stream through all of the keys."""
    rows = scaled(sizes, ROWS)
    keys = max(200, round(_LOCAL_KEYS * sizes.scale))
    return Table(Source.UNIFORM, rows, keys), Stream(Shape.LOCAL, scaled(sizes, 187_500), 1.0)


def ssij(place: float, parameters: Parameters = (), *, label: str = SSIJ) -> Contestant:
    """Our join."""
    return Contestant(label, "ssij", place, parameters)


def mesh(place: float, *, label: str = MESH) -> Contestant:
    """MeshJoin, which chooses its own parameters."""
    return Contestant(label, "mesh", place)
