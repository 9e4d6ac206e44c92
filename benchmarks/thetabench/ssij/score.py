"""What the join of a stream to a relation must reach, and what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thetabench.figure import power
from thetabench.score import Score, over
from thetabench.ssij.readplans import GREEDY, OPTIMAL
from thetabench.ssij.result import SsijResult
from thetabench.ssij.sensitivity import BURSTS, DYNAMIC, LRU, SPLITS, UTILITY
from thetabench.ssij.shapes import FEW_COLUMNS, HOME, MESH, SSIJ, STATIC

__all__ = ["verdicts"]

Results = Sequence[SsijResult]
_RATE = "rows_per_s"
_REAL = {"3-direct": "real device", "5-direct": "real device", "7-direct": "real device"}


def verdicts(results: Results) -> list[Score]:
    """Compare what was measured; a figure that was not has no lines."""
    by_figure: dict[str, list[SsijResult]] = {}
    for result in results:
        if result.ran:
            by_figure.setdefault(result.figure, []).append(result)
    judges = {
        "3": _skewed, "4": _skewed, "3-direct": _skewed,
        "5": _by_memory, "6": _by_memory, "5-direct": _by_memory,
        "7": _one_to_many, "7-direct": _one_to_many,
        "8": _real_data, "9": _databases, "10": _dynamic, "11": _policies,
        "16": _deadlines, "table3": _bursts, "plan": _plans, "worst": _worst, "spark": _spark,
        "index": _index,
    }  # fmt: skip
    return [
        score
        for figure, judge in judges.items()
        if figure in by_figure
        for score in judge(figure, by_figure[figure])
    ]


def _where(figure: str) -> str:
    device = "real device" if figure in _REAL else "disk"
    zipf = "permuted zipf" if figure in ("4", "6") else "zipf"
    return f"{zipf}, {device}"


def _skewed(figure: str, results: Results) -> list[Score]:
    """By skew, at 7.5 % memory."""
    ratios = over(results, SSIJ, MESH, _RATE)
    measure = f"{SSIJ} over {MESH}, {_where(figure)}, 7.5 % memory, least over skew"
    return [_least(measure, ratios, 1.0)]


def _by_memory(figure: str, results: Results) -> list[Score]:
    """At the least memory without skew; and the most that is reached anywhere."""
    mesh = f"{MESH}, skew 0"
    plain = over(results, f"{SSIJ}, skew 0", mesh, _RATE)
    least = min(plain, default=None)
    at = f"{least:g} % memory" if least is not None else "least memory"
    skewed = over(results, f"{SSIJ}, skew 1", mesh, _RATE)
    return [
        Score(
            f"{SSIJ} over {MESH}, {_where(figure)}, skew 0, {at}",
            plain[least] if least is not None else None,
            "×", 1.0, remark=_shown(plain),
        ),
        _most(f"{SSIJ} over {MESH}, {_where(figure)}, skew 1, most over memory", skewed, 6.0),
    ]  # fmt: skip


def _one_to_many(figure: str, results: Results) -> list[Score]:
    """The most over memory, for each K: 3 × for 1:1, 9 × for 1:400."""
    found = []
    for times, must in ((1, 3.0), (10, 3.0), (100, 3.0), (400, 9.0)):
        ratios = over(results, f"{SSIJ}, 1:{times}", f"{MESH}, 1:{times}", _RATE)
        if ratios:
            measure = f"{SSIJ} over {MESH}, 1:{times}, {_where(figure)}, most over memory"
            found.append(_most(measure, ratios, must))
    return found


def _real_data(figure: str, results: Results) -> list[Score]:
    return [
        _least(
            f"{SSIJ} over {MESH}, {name}, least over memory",
            over(results, f"{SSIJ}, {name}", f"{MESH}, {name}", _RATE),
            None,
        )
        for name in ("TPC-H", "taxi zones")
    ]


def _databases(figure: str, results: Results) -> list[Score]:
    """The least over sizes: giving whole rows, and giving what the databases read."""
    own = (SSIJ, FEW_COLUMNS)
    others = dict.fromkeys(r.contestant for r in results if r.contestant not in own)
    return [
        _least(
            f"{ours} over {other}, real device, 10 % memory, least over sizes",
            over(results, ours, other, _RATE),
            3.0 if other == "postgresql" else None,
        )
        for other in others
        for ours in own
    ]


def _spark(figure: str, results: Results) -> list[Score]:
    ratios = over(results, HOME, STATIC, _RATE)
    return [_least(f"{HOME} over Spark's stream-static join, 1 GB", ratios, 5.0)]


def _dynamic(figure: str, results: Results) -> list[Score]:
    """Against the best of the fixed splits, at each memory; the gain grows with memory."""
    fixed = [label for label, own in SPLITS.items() if own and own[0][0] == "split"]
    best: dict[float, float] = {}
    for label in fixed:
        for place, ratio in over(results, DYNAMIC, label, _RATE).items():
            best[place] = min(ratio, best.get(place, ratio))
    grown = best[max(best)] / best[min(best)] if best else None
    return [
        _least("dynamic memory over the best fixed split, least over memory", best, 1.2),
        Score("the same, at the most memory over the least", grown, "×", 1.0),
    ]


def _policies(figure: str, results: Results) -> list[Score]:
    ratios = over(results, UTILITY, LRU, _RATE)
    small = ratios[min(ratios)] if ratios else None
    return [
        _least("utility cache over LRU, skew 1, least over memory", ratios, 1.0),
        Score("utility cache over LRU, skew 1, least memory", small, "×", 1.2),
    ]


def _deadlines(figure: str, results: Results) -> list[Score]:
    met = {r.place: r.met_share * 100 for r in results if r.contestant == SSIJ}
    least = min(met.values(), default=None)
    measure = "deadlines met at 0.8 of the sustainable rate, least over deadlines"
    return [Score(measure, least, "%", 99.9, remark=_shown(met))]


def _bursts(figure: str, results: Results) -> list[Score]:
    """Against Table III."""
    return [
        Score(
            f"burst of {percent} % is borne",
            next((r.burst_ms for r in results if r.place == percent), None),
            "ms", paper,
        )
        for percent, paper in BURSTS.items()
    ]  # fmt: skip


def _plans(figure: str, results: Results) -> list[Score]:
    greedy = over(results, OPTIMAL, GREEDY, "plan_cost_ms")
    share = {r.place: r.plan_share * 100 for r in results if r.contestant == OPTIMAL}
    worst = max(greedy.values(), default=None)
    return [
        Score("read plan: cost over greedy, most", worst, "×", 1.0, more=False,
              remark=_shown(greedy)),
        Score("read plan: planning, share of the phase, most", max(share.values(), default=None),
              "%", 5.0, more=False, remark=_shown(share)),
    ]  # fmt: skip


def _worst(figure: str, results: Results) -> list[Score]:
    ratios = over(results, SSIJ, MESH, _RATE)
    return [_least(f"worst case (Section V): {SSIJ} over {MESH}, least over memory", ratios, 1.0)]


def _index(figure: str, results: Results) -> list[Score]:
    sizes = {r.place: r.index_mb_10gb for r in results}
    return [
        Score("index in memory per 10 GB (paper: 13 MB), most over rows per key",
              max(sizes.values(), default=None), "MB", more=False, remark=_shown(sizes))
    ]  # fmt: skip


# --- Numbers -------------------------------------------------------------------------------------


def _least(measure: str, ratios: Mapping[float, float], must: float | None) -> Score:
    return Score(measure, min(ratios.values(), default=None), "×", must, remark=_shown(ratios))


def _most(measure: str, ratios: Mapping[float, float], must: float | None) -> Score:
    return Score(measure, max(ratios.values(), default=None), "×", must, remark=_shown(ratios))


def _shown(values: Mapping[float, float]) -> str:
    """Values by place.

    >>> _shown({1: 2.5, 16: 3.0})
    '1: 2.5, 16: 3'
    """
    return ", ".join(f"{power(place)}: {value:.3g}" for place, value in values.items())
