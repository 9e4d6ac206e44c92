"""The PanJoin paper's benchmark as a whole: figures, result file, scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thetabench.figure import power
from thetabench.panjoin.figures import FIGURES, SECONDS, cells
from thetabench.panjoin.measure import MEASURES
from thetabench.panjoin.plan import Work
from thetabench.panjoin.result import PanResult
from thetabench.panjoin.run import run
from thetabench.panjoin.score import scores
from thetabench.unported import NO_COLUMNS, OldPaper, no_course

_WINDOWS = {Work.JOIN.value, Work.SLIDE.value}


def _where(results: Sequence[Any]) -> str:
    rows = {result.rows for result in results}
    if len(rows) > 1:
        return ""
    several = results[0].work in _WINDOWS or "subwindows=16" in results[0].parameters
    return f", {'w' if several else 'N_Sub'} = {power(rows.pop())}"


PAPER = OldPaper(
    "panjoin",
    "PanJoin",
    FIGURES,
    MEASURES,
    NO_COLUMNS,
    no_course,
    kind=PanResult,
    judge=scores,
    runner=run,
    maker=cells,
    seconds=SECONDS,
    where=_where,
)
