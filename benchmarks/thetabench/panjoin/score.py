"""What the structures must reach, and what was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from thetabench.figure import power
from thetabench.panjoin.result import PanResult
from thetabench.panjoin.splitters import INCREASING
from thetabench.panjoin.systems import HOME
from thetabench.score import Score, mean, over

__all__ = ["scores"]

_SMALL, _LARGE = 1 << 10, 1 << 14  # selectivities: below the first, and exactly the second
_ADJUSTMENTS = 3
_W1_BATCH = 1 << 15


def scores(results: Sequence[PanResult]) -> list[Score]:
    """Compare what was measured; a figure that was not has no lines."""
    by_figure: dict[str, list[PanResult]] = {}
    for result in results:
        by_figure.setdefault(result.figure, []).append(result)
    found: list[Score] = []
    for figure, judge in _JUDGES.items():
        if figure in by_figure:
            found += judge([result for result in by_figure[figure] if result.ran])
    return found


def _b_trees(results: Sequence[PanResult]) -> list[Score]:
    found = []
    for what, must in (("insertion", 3.0), ("equi probing", None), ("band probing", None)):
        for other, least in (("b+tree", must), ("btrees", None)):
            ratios = over(results, f"wib-tree, {what}", f"{other}, {what}")
            measure = f"wib-tree over {other}, {what}, mean over batches"
            found.append(Score(measure, mean(ratios), "×", least, remark=_by_place(ratios)))
    return found


def _leaves(results: Sequence[PanResult]) -> list[Score]:
    ratios = over(results, "unsorted leaves", "sorted leaves")
    measure = "unsorted over sorted leaves, insertion, mean over leaf widths"
    return [Score(measure, mean(ratios), "×", 2.0, remark=_by_place(ratios))]


def _probing(results: Sequence[PanResult]) -> list[Score]:
    found = []
    for one, other, must in (("bi-sort", "rap-table", 1.5), ("rap-table", "wib-tree", 1.3)):
        ratios = {s: r for s, r in over(results, one, other).items() if s < _SMALL}
        measure = f"{one} over {other}, band probing, S < {power(_SMALL)}, least"
        least = min(ratios.values(), default=None)
        found.append(Score(measure, least, "×", must, remark=_by_place(ratios)))
    largest = over(results, "bi-sort", "rap-table").get(_LARGE)
    remark = ""
    if pairs := over(results, "bi-sort, pairs", "rap-table").get(_LARGE):
        remark = f"with pairs written down: {pairs:.2f}"
    measure = f"bi-sort over rap-table, band probing, S = {power(_LARGE)}"
    found.insert(1, Score(measure, largest, "×", 20.0, remark=remark))
    return found


def _splitters(results: Sequence[PanResult]) -> list[Score]:
    """The largest error after three adjustments; and what increasing keys do."""
    last = {r.contestant: r for r in results if r.place == _ADJUSTMENTS}
    even = {label: r for label, r in last.items() if r.distribution != INCREASING}
    worst = max((r.splitter_error for r in even.values()), default=None)
    remark = ", ".join(f"{label}: {_count(r.iterations)}" for label, r in even.items())
    measure = f"error of the splitters after {_ADJUSTMENTS} adjustments, largest"
    found = [Score(measure, worst, "", 0.1, more=False, remark=f"below 0.1 after: {remark}")]
    for label, r in last.items():
        if r.distribution == INCREASING:
            outside = f"reported: {100 * r.outside_share:.0f} % of the rows outside the splitters"
            measure = f"error of the splitters, {label}"
            found.append(Score(measure, r.splitter_error, "", remark=outside))
    return found


def _worst_case(results: Sequence[PanResult]) -> list[Score]:
    ratios = [r.iterations / r.bound if r.iterations >= 0 else float("inf") for r in results]
    remark = ", ".join(
        f"P = {power(r.place)}: {_count(r.iterations)} of {r.bound}" for r in results
    )
    measure = "worst case: adjustments over the paper's bound, most"
    return [Score(measure, max(ratios, default=None), "", 1.0, more=False, remark=remark)]


def _nested_loops(results: Sequence[PanResult]) -> list[Score]:
    found = []
    for name, must in (("bi-sort", 1000.0), ("rap-table", 100.0), ("wib-tree", 100.0)):
        ratios = over(results, name, "nested-loop")
        measure = f"{name} over nested loops, per probe, S = 1"
        found.append(Score(measure, ratios.get(1.0), "×", must, remark=_by_place(ratios)))
    return found


def _w1(results: Sequence[PanResult]) -> list[Score]:
    """The best structure of the paper against the default, at the batch size that is judged."""
    found = []
    for rows in dict.fromkeys(result.rows for result in results):
        own = {
            r.structure: r.tuples_per_s
            for r in results
            if r.rows == rows and r.batch == min(_W1_BATCH, rows)
        }
        home = own.pop(HOME, None)
        ratios = {name: speed / home for name, speed in own.items()} if home else {}
        remark = ", ".join(f"{name.partition('/')[2]}: {r:.2f}" for name, r in ratios.items())
        measure = f"W1, w = {power(rows)}: best structure over the default index"
        found.append(Score(measure, max(ratios.values(), default=None), "×", remark=remark))
    return found


def _by_place(ratios: Mapping[float, float]) -> str:
    return ", ".join(f"{power(place)}: {ratio:.3g}" for place, ratio in ratios.items())


def _count(iterations: int) -> str:
    return "never" if iterations < 0 else str(iterations)


_JUDGES: dict[str, Callable[[Sequence[PanResult]], list[Score]]] = {
    "11f": _b_trees,
    "leaves": _leaves,
    "13b": _probing,
    "10f": _splitters,
    "4": _worst_case,
    "15e": _nested_loops,
    "w1": _w1,
}
"""What is judged in which figure, in the order of the requirements."""
