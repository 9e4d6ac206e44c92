"""The Ordered Indexing paper's benchmark as a whole: figures, result file, verdicts, Table 1."""

from __future__ import annotations

from thetabench.figure import Paper
from thetabench.ordered.figures import FIGURES, TABLE
from thetabench.ordered.measure import MEASURES
from thetabench.ordered.remark import REMARKS
from thetabench.ordered.result import OrderedResult
from thetabench.ordered.score import verdicts
from thetabench.ordered.summary import table

__all__ = ["PAPER"]

PAPER = Paper(
    "ordered",
    "Ordered Indexing",
    FIGURES,
    MEASURES,
    OrderedResult,
    verdicts,
    derived={TABLE: table, **REMARKS},
)
