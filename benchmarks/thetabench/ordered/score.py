"""What the ordered indexes must reach, and what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thetabench.figure import power
from thetabench.ordered import matches, questions
from thetabench.ordered.deleting import DROP, ONE_BY_ONE
from thetabench.ordered.growing import FIRST_NEXT, FLAT
from thetabench.ordered.result import OrderedResult
from thetabench.score import Score, over

__all__ = ["verdicts"]

_TRIE, _TREE, _JUDY = "radix-trie", "b-tree", "judy"
_ROAD, _RANDOM = "Linear Road", "random"

Results = Sequence[OrderedResult]


def verdicts(results: Results) -> list[Score]:
    """Compare what was measured; a figure that was not has no lines."""
    by_figure: dict[str, list[OrderedResult]] = {}
    for result in results:
        if result.ran:
            by_figure.setdefault(result.figure, []).append(result)
    return [
        *(_dropped(by_figure["13"]) if "13" in by_figure else ()),
        *_constant(by_figure),
        *_memory(by_figure),
        *_mappers(by_figure),
        *_ranges(by_figure),
        *_against_judy(by_figure),
        *(_questions(by_figure["q2"], "Q2", 50.0) if "q2" in by_figure else ()),
        *(_questions(by_figure["q1"], "Q1", None) if "q1" in by_figure else ()),
        *(_aggregates(by_figure["aggregate"]) if "aggregate" in by_figure else ()),
    ]


def _dropped(results: Results) -> list[Score]:
    """The least ratio over sizes."""
    found = []
    for inner, must in ((_TREE, 100.0), (_TRIE, 100.0), (_JUDY, None)):
        ratios = over(results, f"{inner}, {ONE_BY_ONE}", f"{inner}, {DROP}", "empty_ms")
        if ratios or must:
            measure = f"PTWI drop over deletion one by one, {inner}, least over sizes"
            found.append(_least(measure, ratios, must))
    return found


def _constant(by_figure: Mapping[str, Results]) -> list[Score]:
    """The largest size against a quarter of it."""
    found = []
    for figure, what, column, must in (
        ("4", f"per insert, {_ROAD}", "ns_insert", 1.2),
        ("6", f"per look-up, {_ROAD}", "ns_find", 1.2),
        ("5", f"per insert, {_RANDOM}", "ns_insert", None),
        ("7", f"per look-up, {_RANDOM}", "ns_find", None),
    ):
        if figure not in by_figure:
            continue
        times = _of(by_figure[figure], _TRIE, column)
        large = max(times, default=0.0)
        value = times[large] / times[large / 4] if large / 4 in times else None
        measure = f"{_TRIE}: time {what}, {large:.3g} M keys over {large / 4:.3g} M"
        found.append(Score(measure, value, "×", must, more=False, remark=_shown(times, "ns")))
    return found


def _memory(by_figure: Mapping[str, Results]) -> list[Score]:
    """Of the largest size; Linear Road keys are dense there."""
    found = []
    for figure, keys, must in (("8", f"{_ROAD}, dense", 1.0), ("10", _RANDOM, 1.5)):
        if figure in by_figure:
            for other, limit in ((FLAT, must), (_TREE, 1.0)):
                ratios = over(by_figure[figure], _TRIE, other, "bytes_per_pair")
                value = ratios[max(ratios)] if ratios else None
                measure = f"{_TRIE}: memory over {other}, {keys}"
                found.append(Score(measure, value, "×", limit, more=False, remark=_shown(ratios)))
    return found


def _mappers(by_figure: Mapping[str, Results]) -> list[Score]:
    """The least ratio over sizes."""
    found = []
    for figure, keys in (("11", _ROAD), ("12", _RANDOM)):
        for other, must in ((f"{_TRIE}, {FIRST_NEXT}", 5.0), (_JUDY, 3.0)):
            if figure in by_figure:
                ratios = over(by_figure[figure], other, _TRIE, "us_range")
                name = FIRST_NEXT if other != _JUDY else f"libJudy's {FIRST_NEXT}"
                measure = f"{_TRIE}: mapper over {name}, {keys}, least over sizes"
                found.append(_least(measure, ratios, must))
    return found


def _ranges(by_figure: Mapping[str, Results]) -> list[Score]:
    """The largest ratio over sizes."""
    return [
        _most(
            f"range search: {_TRIE} over {_TREE}, {keys}, most over sizes",
            over(by_figure[figure], _TRIE, _TREE, "us_range"),
            must,
        )
        for figure, keys, must in (("11", _ROAD, 1.3), ("12", _RANDOM, 3.0))
        if figure in by_figure
    ]


def _against_judy(by_figure: Mapping[str, Results]) -> list[Score]:
    """The largest ratio over sizes."""
    return [
        _most(
            f"{what}: {_TRIE} over {_JUDY}, {keys}, most over sizes",
            over(by_figure[figure], _TRIE, _JUDY, column),
            1.5,
        )
        for figure, what, keys, column in (
            ("4", "insertion", _ROAD, "ns_insert"),
            ("5", "insertion", _RANDOM, "ns_insert"),
            ("6", "look-up", _ROAD, "ns_find"),
            ("7", "look-up", _RANDOM, "ns_find"),
        )
        if figure in by_figure
    ]


def _questions(results: Results, name: str, must: float | None) -> list[Score]:
    """The least over one and several questions at a time."""
    others = dict.fromkeys(r.contestant for r in results if r.contestant != questions.OURS)
    return [
        _least(
            f"{name}: {questions.OURS} over {other}, per question, least",
            over(results, other, questions.OURS, "us_question"),
            must,
        )
        for other in others
    ]


def _aggregates(results: Results) -> list[Score]:
    """At the larger match rate."""
    found = []
    for other in dict.fromkeys(r.contestant for r in results if r.contestant != matches.OURS):
        ratios = over(results, matches.OURS, other)
        value = ratios[max(ratios)] if ratios else None
        rate = f"{max(ratios):,.0f} matches per row" if ratios else "match rate"
        must = 10.0 if other in matches.JOINED else None
        measure = f"W1, {rate}: {matches.OURS} over {other}"
        found.append(Score(measure, value, "×", must, remark=_shown(ratios)))
    return found


# --- Numbers -------------------------------------------------------------------------------------


def _least(measure: str, ratios: Mapping[float, float], must: float | None) -> Score:
    least = min(ratios.values(), default=None)
    return Score(measure, least, "×", must, remark=_shown(ratios))


def _most(measure: str, ratios: Mapping[float, float], must: float | None) -> Score:
    most = max(ratios.values(), default=None)
    return Score(measure, most, "×", must, more=False, remark=_shown(ratios))


def _of(results: Results, label: str, column: str) -> dict[float, float]:
    return {r.place: getattr(r, column) for r in results if r.contestant == label}


def _shown(values: Mapping[float, float], unit: str = "") -> str:
    """Values by place.

    >>> _shown({1: 2.5, 16: 3.0}, "ns")
    '1: 2.5 ns, 16: 3 ns'
    """
    after = f" {unit}" if unit else ""
    return ", ".join(f"{power(place)}: {value:.3g}{after}" for place, value in values.items())
