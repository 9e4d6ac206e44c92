"""The registry of papers: what ``thetastream bench``, the tables and the plots know by name.

Importing it is cheap: a paper's own modules are loaded when the paper is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from thetastream.errors import RegistryError, suggest

if TYPE_CHECKING:
    from thetabench.paper import Paper

PAPERS: dict[str, str] = {
    "pim": "the figures of the PIM-Tree paper (about 20 minutes; --figure for some)",
    "panjoin": "the figures of the PanJoin paper (at most 20 minutes; --figure for some)",
    "spo": "the figures of the SPO-Join paper (at most 15 minutes; --figure for some)",
    "ordered": "the figures of the Ordered Indexing paper (at most 15 minutes; --figure for some)",
    "ssij": "the figures of the SSIJ paper (some 25 minutes; --figure for some)",
}
"""What each paper's benchmark measures, by name; its value is ``thetabench.NAME.paper.PAPER``."""


def paper(name: str) -> Paper:
    """A paper by name."""
    if name not in PAPERS:
        raise RegistryError(
            f"paper must be one of {', '.join(PAPERS)}; got {name!r}.{suggest(name, PAPERS)}"
        )
    value: Paper = import_module(f"thetabench.{name}.paper").PAPER
    return value
