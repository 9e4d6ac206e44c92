"""The Ordered Indexing paper's benchmark as a whole: figures, result file, verdicts, Table 1."""

from __future__ import annotations

from thetabench.ordered.figures import FIGURES, SECONDS, TABLE, cells
from thetabench.ordered.measure import MEASURES
from thetabench.ordered.remark import REMARKS
from thetabench.ordered.result import OrderedResult
from thetabench.ordered.run import run
from thetabench.ordered.score import verdicts
from thetabench.ordered.summary import table
from thetabench.unported import NO_COLUMNS, OldPaper, no_course

PAPER = OldPaper(
    "ordered",
    "Ordered Indexing",
    FIGURES,
    MEASURES,
    NO_COLUMNS,
    no_course,
    kind=OrderedResult,
    judge=verdicts,
    runner=run,
    maker=cells,
    seconds=SECONDS,
    derived={TABLE: table, **REMARKS},
)
