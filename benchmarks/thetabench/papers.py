"""The registry of papers: what ``thetastream bench``, the tables and the plots know by name.

Importing it is cheap: a paper's own modules are loaded when the paper is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from thetastream.errors import RegistryError, suggest

if TYPE_CHECKING:
    from thetabench.paper import Paper

QUICK = "quick"
PAPERS: dict[str, str] = {
    "foundation": "W1, W2 and W3 at all window and batch sizes, all contestants (about 25 minutes)",
    QUICK: "a smoke run of the same: small windows, most contestants (under 20 s)",
    "planner": "auto beside every tactic (about 25 minutes; --quick, --workload, --window, "
    "--batch)",
    "pim": "the figures of the PIM-Tree paper (about 20 minutes; --figure for some)",
    "panjoin": "the figures of the PanJoin paper (at most 20 minutes; --figure for some)",
    "spo": "the figures of the SPO-Join paper (at most 15 minutes; --figure for some)",
    "ordered": "the figures of the Ordered Indexing paper (at most 15 minutes; --figure for some)",
    "ssij": "the figures of the SSIJ paper (some 25 minutes; --figure for some)",
    "spark": "the Spark operator beside empty joiners, hand-made buckets and Spark's own joins "
    "(at most 35 minutes; --quick, --only for some figures)",
}
"""What each paper's benchmark measures, by name; its value is ``thetabench.NAME.paper.PAPER``."""


def paper(name: str, *, quick: bool = False) -> Paper:
    """A paper by name; ``quick``: small, if it can be had so."""
    if name not in PAPERS:
        raise RegistryError(
            f"experiment must be one of {', '.join(PAPERS)}; got {name!r}.{suggest(name, PAPERS)}"
        )
    home = "foundation" if name == QUICK else name
    value: Paper = import_module(f"thetabench.{home}.paper").PAPER
    return value.quick if value.quick and (quick or name == QUICK) else value
