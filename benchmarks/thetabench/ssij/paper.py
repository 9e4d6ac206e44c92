"""The SSIJ paper's benchmark as a whole: figures, result file, verdicts, remarks."""

from __future__ import annotations

from thetabench.ssij.figures import FIGURES, cells
from thetabench.ssij.measure import MEASURES
from thetabench.ssij.remark import REMARKS
from thetabench.ssij.result import SsijResult
from thetabench.ssij.run import run
from thetabench.ssij.score import verdicts
from thetabench.unported import NO_COLUMNS, OldPaper, no_course

PAPER = OldPaper(
    "ssij",
    "SSIJ",
    FIGURES,
    MEASURES,
    NO_COLUMNS,
    no_course,
    kind=SsijResult,
    judge=verdicts,
    runner=run,
    maker=cells,
    derived=REMARKS,
)
