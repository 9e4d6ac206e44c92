"""The SSIJ paper's benchmark as a whole: figures, result file, verdicts, remarks."""

from __future__ import annotations

from thetastream.bench.figure import Paper
from thetastream.bench.ssij.figures import FIGURES
from thetastream.bench.ssij.measure import MEASURES
from thetastream.bench.ssij.remark import REMARKS
from thetastream.bench.ssij.result import SsijResult
from thetastream.bench.ssij.score import verdicts

__all__ = ["PAPER"]

PAPER = Paper("ssij", "SSIJ", FIGURES, MEASURES, SsijResult, verdicts, derived=REMARKS)
