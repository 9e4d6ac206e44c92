"""What SPO-Join must reach, and what was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from thetabench.figure import power
from thetabench.score import Score, mean, over
from thetabench.spo.parts import BATCH
from thetabench.spo.result import SpoResult
from thetabench.spo.rivals import CHAINS, LOOPS, SPO
from thetabench.spo.systems import DUCKDB, PAPER_ROWS, POLARS, RATES

__all__ = ["scores"]

_BATCHED = f", batch {power(BATCH)}"
_WAYS = {"row by row": "", f"batches of {BATCH:,}": _BATCHED}
_W_BATCH = 1 << 13
_BYTES = 40.0
_MERGE = 0.1


def scores(results: Sequence[SpoResult]) -> list[Score]:
    """Compare what was measured; a figure that was not has no lines."""
    by_figure: dict[str, list[SpoResult]] = {}
    for result in results:
        by_figure.setdefault(result.figure, []).append(result)
    found: list[Score] = []
    for figure, judge in _JUDGES.items():
        if figure in by_figure:
            found += judge([result for result in by_figure[figure] if result.ran])
    return found


def _immutable(query: str, musts: Mapping[str, float | None]) -> _Judge:
    """PO-Join against css-trees, mean over windows."""

    def judge(results: Sequence[SpoResult]) -> list[Score]:
        return [
            _mean(results, f"{query}: po-join over {other}, {way}", f"po-join{note}",
                  f"{other}{note}", must)
            for other, must in musts.items()
            for way, note in _WAYS.items()
        ]  # fmt: skip

    return judge


def _mutable(query: str, must: float | None) -> _Judge:
    """Bit arrays against hash tables, mean over slides."""

    def judge(results: Sequence[SpoResult]) -> list[Score]:
        return [
            _mean(results, f"{query}, mutable part: bits over hash, {way}", f"bits{note}",
                  f"hash{note}", must)
            for way, note in _WAYS.items()
        ]  # fmt: skip

    return judge


def _chains(query: str, must: float | None) -> _Judge:
    """Latency per row, the least over windows."""

    def judge(results: Sequence[SpoResult]) -> list[Score]:
        found = []
        for label, _, _ in CHAINS:
            # the latency of the other over ours
            ratios = over(results, label, SPO, "p95_us")
            measure = f"{query}: spo-join over {label}, 95 % latency, least over windows"
            least = min(ratios.values(), default=None)
            limit = must if label == CHAINS[0][0] else None
            found.append(Score(measure, least, "×", limit, remark=_by_place(ratios)))
        return found

    return judge


def _loops(query: str, must: float | None) -> _Judge:
    """Throughput against nested loops at the first window of the figure."""

    def judge(results: Sequence[SpoResult]) -> list[Score]:
        found = []
        for label, _, _ in LOOPS:
            for way, note in _WAYS.items():
                ratios = over(results, f"{SPO}{note}", f"{label}{note}")
                place = min(ratios, default=None)
                value = None if place is None else ratios[place]
                where = "" if place is None else f", w = {place:,.0f}"
                measure = f"{query}: spo-join over {label}, {way}{where}"
                found.append(Score(measure, value, "×", must, remark=_by_place(ratios)))
        return found

    return judge


def _memory(results: Sequence[SpoResult]) -> list[Score]:
    found = []
    for label in (SPO, "po-join"):
        sizes = {r.place: r.bytes_per_row for r in results if r.contestant == label}
        most = max(sizes.values(), default=None)
        measure = f"bytes per stored row, {label}, most"
        found.append(Score(measure, most, "", _BYTES, more=False, remark=_by_place(sizes)))
    ratios = over(results, "pim-tree, two", SPO, "bytes_per_row")
    measure = "memory of two pim-trees over that of spo-join, mean"
    found.append(Score(measure, mean(ratios), "×", remark=f"paper: 1.5–2.5; {_by_place(ratios)}"))
    return found


def _cluster(results: Sequence[SpoResult]) -> list[Score]:
    """One thread against the paper's cluster; judged up to the paper's least match rate."""
    found = []
    for number, rate in enumerate(RATES):
        suffix = f", {rate:,.0f} matches per row"
        own = {
            r.contestant.removesuffix(suffix): r.tuples_per_s / PAPER_ROWS
            for r in results
            if r.place == 1 and r.contestant.endswith(suffix)
        }
        remark = ", ".join(f"{name}: {value:.3g}" for name, value in own.items())
        measure = f"Q3{suffix}: one thread over the paper's cluster, the faster tactic"
        must = 10.0 if number <= 1 else None
        best = max(own.values(), default=None)
        found.append(Score(measure, best, "×", must, remark=remark))
    return found


def _merging(results: Sequence[SpoResult]) -> list[Score]:
    """The largest slide."""
    largest = max((r.place for r in results), default=0.0)
    found = []
    for r in results:
        if r.place == largest:
            remark = f"longest insertion {r.stall_ms / 1e3:.3g} s; paper: 10–15 s"
            measure = f"merge of a slide of {largest:,.0f} rows, {r.contestant}"
            must = None if "background" in r.contestant else _MERGE
            found.append(Score(measure, r.merge_ms / 1e3, "s", must, more=False, remark=remark))
    return found


def _equality(results: Sequence[SpoResult]) -> list[Score]:
    found = []
    for one in ("hash", "auto"):
        ratios = over(results, one, "spo-join")
        measure = f"Q1 with equality: {one} over spo-join, mean"
        found.append(Score(measure, mean(ratios), "×", remark=_by_place(ratios)))
    return found


def _w2(results: Sequence[SpoResult]) -> list[Score]:
    """The larger window at a batch of 2^13."""
    found = []
    for other, aim in ((DUCKDB, 50.0), (POLARS, None)):
        found += _against(results, "W2", (other,), 20.0, aim)
    return found


def _w3(results: Sequence[SpoResult]) -> list[Score]:
    return [
        *_against(results, "W3", ("duckdb-bucket",), 5.0, None),
        *_against(results, "W3", ("polars-bucket",), None, None),
    ]


def _against(
    results: Sequence[SpoResult], query: str, others: Sequence[str], must: float | None,
    aim: float | None,
) -> list[Score]:  # fmt: skip
    """``auto`` against a peer at the largest window, judged at one batch size."""
    window = max((r.window for r in results), default=0)
    own = [r for r in results if r.window == window]
    label = f", w = {window:,}" if any(", w = " in r.contestant for r in own) else ""
    found = []
    for other in others:
        ratios = over(own, f"auto{label}", f"{other}{label}")
        tactics = {
            r.contestant.removesuffix(label): r.tuples_per_s
            for r in own
            if r.batch == _W_BATCH and r.structure.startswith("thetastream")
        }
        best = max(tactics, key=lambda name: tactics[name], default="")
        remark = f"{_by_place(ratios)}; best tactic at {power(_W_BATCH)}: {best}"
        measure = f"{query}, w = {window:,}, batch {power(_W_BATCH)}: auto over {other}"
        found.append(Score(measure, ratios.get(_W_BATCH), "×", must, aim, remark=remark))
    return found


def _mean(
    results: Sequence[SpoResult], measure: str, one: str, other: str, must: float | None
) -> Score:
    ratios = over(results, one, other)
    return Score(f"{measure}, mean", mean(ratios), "×", must, remark=_by_place(ratios))


def _by_place(ratios: Mapping[float, float]) -> str:
    return ", ".join(f"{power(place)}: {ratio:.3g}" for place, ratio in ratios.items())


_Judge = Callable[[Sequence[SpoResult]], list[Score]]
_CSS = ("css-tree, bits", "css-tree, hash")

_JUDGES: dict[str, _Judge] = {
    "7a": _immutable("Q3", dict(zip(_CSS, (10.0, 20.0), strict=True))),
    "7c": _immutable("Q3, 5 % match", dict.fromkeys(_CSS, None)),
    "8a": _immutable("Q2", dict.fromkeys(_CSS, None)),
    "9a": _immutable("Q1", {_CSS[0]: None}),
    "7b": _mutable("Q3", 5.0),
    "8b": _mutable("Q2", None),
    "9b": _mutable("Q1", None),
    "11c": _chains("Q1", 10.0),
    "11a": _chains("Q3", None),
    "11d": _loops("Q1", 40.0),
    "11b": _loops("Q3", None),
    "w2": _w2,
    "w3": _w3,
    "17": _cluster,
    "13": _memory,
    "20": _merging,
    "22": _equality,
}
"""What is judged in which figure, in the order of the requirements."""
