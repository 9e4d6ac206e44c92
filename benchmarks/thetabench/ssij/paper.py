"""The SSIJ paper's benchmark as a whole: figures, result file, verdicts, remarks."""

from __future__ import annotations

from thetabench.figure import Paper
from thetabench.ssij.figures import FIGURES
from thetabench.ssij.measure import MEASURES
from thetabench.ssij.remark import REMARKS
from thetabench.ssij.result import SsijResult
from thetabench.ssij.score import verdicts

__all__ = ["PAPER"]

PAPER = Paper("ssij", "SSIJ", FIGURES, MEASURES, SsijResult, verdicts, derived=REMARKS)
