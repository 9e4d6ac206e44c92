"""The Ordered Indexing paper's benchmark as a whole: figures, result file, verdicts, Table 1."""

from __future__ import annotations

from thetastream.bench.figure import Paper
from thetastream.bench.ordered.figures import FIGURES, TABLE
from thetastream.bench.ordered.measure import MEASURES
from thetastream.bench.ordered.remark import REMARKS
from thetastream.bench.ordered.result import OrderedResult
from thetastream.bench.ordered.score import verdicts
from thetastream.bench.ordered.summary import table

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
