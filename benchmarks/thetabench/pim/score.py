"""What the structures and the parallel join must reach, what they aim at, and what was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from thetabench.figure import power
from thetabench.pim.result import PimResult
from thetabench.score import Score, mean, over

__all__ = ["scores"]

_TASK_SIZES = range(8, 65)
_RECOVERED = 0.95  # of the first phase's throughput; less would be more than noise


def scores(results: Sequence[PimResult]) -> list[Score]:
    """Compare what was measured; a figure that was not has no lines."""
    by_figure: dict[str, list[PimResult]] = {}
    for result in results:
        by_figure.setdefault(result.figure, []).append(result)
    found: list[Score] = []
    for figure, judge in _JUDGES.items():
        if figure in by_figure:
            found += judge([result for result in by_figure[figure] if result.ran])
    return found


def _one_thread(results: Sequence[PimResult]) -> list[Score]:
    found = []
    for name, must in (("im-tree", 1.5), ("pim-tree", 1.6)):
        ratios = over(results, name, "b+tree")
        remark = ", ".join(f"{power(window)}: {ratio:.2f}" for window, ratio in ratios.items())
        measure = f"{name} over b+tree, one thread, mean over windows"
        found.append(Score(measure, mean(ratios), "×", must, 2.5, True, remark))
    return found


def _chain(results: Sequence[PimResult]) -> list[Score]:
    ratios = over(results, "IB-chain", "B-chain")
    remark = ", ".join(f"L = {length:g}: {ratio:.2f}" for length, ratio in ratios.items())
    measure = "IB-chain over B-chain, mean over lengths"
    return [Score(measure, mean(ratios), "×", 1.3, None, True, remark)]


def _against_peers(results: Sequence[PimResult]) -> list[Score]:
    return [
        Score(f"pim-tree over {name}", mean(over(results, "pim-tree", name)), "×", must)
        for name, must in (("btrees", 5), ("sortedcontainers", 15))
    ]


def _two_threads(results: Sequence[PimResult]) -> list[Score]:
    """Two threads against one, both with concurrency control, at the largest window."""
    largest = max((result.window for result in results), default=0)
    own = [r for r in results if r.window == largest and r.task_size in _TASK_SIZES]
    speeds = {(r.task_size, r.threads): r.tuples_per_s for r in own}
    ratios = {
        size: speed / speeds[size, 1]
        for (size, threads), speed in speeds.items()
        if threads == 2 and (size, 1) in speeds
    }
    remark = ", ".join(f"{size}: {ratio:.2f}" for size, ratio in ratios.items())
    measure = "two threads over one, mean over task sizes 8 … 64"
    return [Score(measure, mean(ratios), "×", 1.5, None, True, remark)]


def _control(results: Sequence[PimResult]) -> list[Score]:
    """What concurrency control costs a single thread; the paper says 40 % and 26 %."""
    found = []
    for label in dict.fromkeys(result.contestant for result in results):
        speeds = {r.threads: r.tuples_per_s for r in results if r.contestant == label}
        if not {0, 1} <= set(speeds):
            continue
        lost = 100 * (1 - speeds[1] / speeds[0])
        remark = ", ".join(
            f"{n} threads: {v / speeds[1]:.2f} ×" for n, v in speeds.items() if n > 1
        )
        found.append(Score(f"cost of concurrency control, {label}", lost, "%", remark=remark))
    return found


def _merging(results: Sequence[PimResult]) -> list[Score]:
    found = []
    for place in dict.fromkeys(result.place for result in results):
        own = {result.merge: result for result in results if result.place == place}
        calm, harsh = own.get("non-blocking"), own.get("blocking")
        if calm is None or harsh is None:
            continue
        musts = (5.0, 0.9) if place == results[0].place else (None, None)
        note = f"m = {power(place)}"
        latency = harsh.p999_us / calm.p999_us if calm.p999_us and harsh.p999_us else None
        remark = f"{harsh.p999_us:,.0f} and {calm.p999_us:,.0f} µs"
        measure = f"p99.9 of a task during a merge, blocking over non-blocking, {note}"
        found.append(Score(measure, latency, "×", musts[0], None, True, remark))
        speed = calm.tuples_per_s / harsh.tuples_per_s
        measure = f"throughput, non-blocking over blocking, {note}"
        found.append(Score(measure, speed, "", musts[1]))
    return found


def _memory(results: Sequence[PimResult]) -> list[Score]:
    found = []
    for name in ("pim-tree, m = 1, with merge buffer", "pim-tree, m = 1"):
        ratios = over(results, name, "b+tree", "bytes_per_row")
        worst = max(ratios.values(), default=None)
        measure = f"memory of {name}, over b+tree, at most"
        found.append(Score(measure, worst, "×", 2, 1.3, more=False))
    return found


def _skew(results: Sequence[PimResult]) -> list[Score]:
    found = []
    for label in dict.fromkeys(result.contestant for result in results):
        speeds = {r.distribution: r.tuples_per_s for r in results if r.contestant == label}
        if "uniform" not in speeds:
            continue
        ratios = {k: v / speeds["uniform"] for k, v in speeds.items() if k != "uniform"}
        remark = ", ".join(f"{name}: {ratio:.2f}" for name, ratio in ratios.items())
        worst = min(ratios.values(), default=None)
        measure = f"skewed over uniform keys, {label}, least"
        found.append(Score(measure, worst, "", 0.85, None, True, remark))
    return found


def _recovery(results: Sequence[PimResult]) -> list[Score]:
    """The third phase against the first, the least of all speeds of drift."""
    found = []
    for threads in dict.fromkeys(result.threads for result in results):
        own = [result for result in results if result.threads == threads]
        ratios = {}
        for label in dict.fromkeys(result.contestant for result in own):
            speeds = {r.place: r.tuples_per_s for r in own if r.contestant == label}
            ratios[label.partition(",")[0]] = speeds[3] / speeds[1]
        remark = ", ".join(f"{label}: {ratio:.2f}" for label, ratio in ratios.items())
        measure = (
            f"after a drift over before, {threads or 'one'} thread{'s' * (threads > 1)}, least"
        )
        worst = min(ratios.values(), default=None)
        found.append(Score(measure, worst, "", _RECOVERED, None, True, remark))
    return found


_JUDGES: dict[str, Callable[[Sequence[PimResult]], list[Score]]] = {
    "10a": _one_thread,
    "8b": _chain,
    "peers": _against_peers,
    "10c": _two_threads,
    "12a": _control,
    "merge": _merging,
    "11a": _memory,
    "12b": _skew,
    "13b": _recovery,
}
"""What is judged in which figure, in the order of the requirements."""
