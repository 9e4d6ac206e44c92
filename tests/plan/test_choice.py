"""Which layout is chosen for which predicate, and what explain() says about it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import thetastream as ts
from thetastream.boxes.binding import Binding, bind
from thetastream.condition.predicate import Predicate
from thetastream.errors import PredicateError
from thetastream.plan import estimate as pricing
from thetastream.plan.choice import SAMPLE, Choice, choose, sample
from thetastream.plan.cost import Cost, predict
from thetastream.plan.explanation import Explanation
from thetastream.plan.layout import Ordered
from thetastream.plan.tactics.cells import CellLayout
from thetastream.plan.tactics.nested_loop import Scan
from thetastream.prices.constants import CALIBRATED, Constants
from thetastream.side import Side

WINDOW = ts.CountWindow(100_000)
NUMBERS = pa.schema([(name, pa.int64()) for name in "xyzk"] + [("s", pa.string())])


def bound(text: str, window: Any = WINDOW) -> Binding:
    return bind(Predicate.parse(text), window, dict.fromkeys(Side, NUMBERS))


def chosen(text: str, tactic: str = "auto", rows: float = 100_000.0) -> Choice:
    return choose(bound(text), Side.LEFT, tactic, rows)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(pytest.param(text, {"ordered"}) for text in ("l.x = r.x", "l.s = r.s", "l.x = r.x + 5")),
        ("l.x = r.x AND l.y = r.y", {"ordered"}),
        ("l.k = r.k AND abs(l.x - r.x) <= 5", {"ordered"}),
        ("abs(l.x - r.x) <= 5 AND abs(l.y - r.y) <= 5", {"ordered"}),
        ("abs(l.x - r.x) <= 5", {"ordered"}),
        ("l.x < r.x", {"ordered"}),
        ("l.x < r.x AND l.y > r.y", {"spo-join"}),
        ("l.x != r.x", {"ordered"}),
        ("l.x * r.x > 10", {"nested-loop"}),
        ("l.s != r.s", {"nested-loop"}),
    ],
)
def test_before_any_rows_the_kind_of_terms_decides(text: str, expected: set[str]) -> None:
    choice = chosen(text)
    assert choice.layout.tactic in expected
    assert not choice.sampled
    assert choice.best.nanoseconds == min(e.nanoseconds for e in (choice.best, *choice.others))


def test_explain_shows_what_was_measured_beside_the_estimate() -> None:
    join = ts.StreamJoin("abs(l.x - r.x) <= 5", window=ts.CountWindow(1000))
    rows = pa.record_batch({"x": np.arange(500)})
    for _ in range(3):
        list(join.push(left=rows, right=rows))
    for side in join.explain().as_dict()["plan"]:
        assert side["measured ns per row"] > side["of which measured for its insert"] > 0
        assert side["chosen"]["estimated ns per row"] > 0
    fresh = ts.StreamJoin("l.x < r.x", window=ts.CountWindow(9), schemas=(rows.schema, rows.schema))
    assert all("measured ns per row" not in side for side in fresh.explain().as_dict()["plan"])


def test_tiny_windows_still_get_a_plan() -> None:
    for text in ("l.x = r.x", "abs(l.x - r.x) <= 5", "l.x * r.x > 10"):
        assert chosen(text, rows=1.0).best.nanoseconds > 0


def test_the_band_drives_before_an_inequality() -> None:
    layout = chosen("l.y < r.y AND abs(l.x - r.x) <= 5", "ordered").layout
    assert isinstance(layout, Ordered)
    assert str(layout.driver) == "l.x - r.x >= -5 AND l.x - r.x <= 5"


def test_an_index_can_be_named() -> None:
    layout = chosen("l.x < r.x", "ordered/nested-loop").layout
    assert (layout.tactic, layout.index) == ("ordered", "nested-loop")


@pytest.mark.parametrize("name", ["nested-loop", "ordered", "hash", "cells"])
def test_a_tactic_can_be_named(name: str) -> None:
    choice = chosen("l.k = r.k AND abs(l.x - r.x) <= 5", name)
    assert {e.layout.tactic for e in (choice.best, *choice.others)} == {name}


@pytest.mark.parametrize(
    ("text", "tactic", "needs"),
    [
        ("l.x < r.x", "hash", "it has no equality term"),
        ("l.x * r.x > 3", "ordered", "it has no term that can be indexed"),
        ("l.x < r.x AND l.y < r.y", "cells", "a bounded band, and a second term"),
        ("abs(l.x - r.x) <= 3", "cells", "a bounded band, and a second term"),
    ],
)
def test_a_tactic_may_refuse(text: str, tactic: str, needs: str) -> None:
    with pytest.raises(PredicateError, match=rf"(?s){needs}; use tactic='auto'") as caught:
        chosen(text, tactic)
    assert text in str(caught.value)


# --- From observed keys -------------------------------------------------------------------------


def drawn(text: str, window: Any = WINDOW, rows: int = 4000, **columns: Any) -> tuple[Any, ...]:
    """A binding and samples of both sides; columns are functions of a random generator."""
    binding, samples = bound(text, window), []
    for seed, side in enumerate(Side):
        random = np.random.default_rng(seed)
        data = {name: np.zeros(rows, np.int64) for name in "xyzk"}
        data |= {name: make(random, rows) for name, make in columns.items()}
        batch = pa.record_batch({**data, "s": [""] * rows}, schema=NUMBERS)
        samples.append(sample(binding.keys(side, batch)))
    return binding, *samples


def uniform(top: int) -> Any:
    return lambda random, rows: random.integers(0, top, rows)


def test_the_more_selective_term_drives() -> None:
    text = "abs(l.x - r.x) <= 10 AND abs(l.y - r.y) <= 10"
    for narrow, wide in (("x", "y"), ("y", "x")):
        binding, left, right = drawn(text, **{narrow: uniform(10**8), wide: uniform(30)})
        choice = choose(binding, Side.LEFT, "ordered", 1e5, left, right)
        assert choice.sampled
        assert isinstance(choice.layout, Ordered)
        assert f"l.{narrow}" in str(choice.layout.driver)


def test_two_unselective_bands_become_cells() -> None:
    text = "abs(l.x - r.x) <= 500 AND abs(l.y - r.y) <= 500"
    binding, left, right = drawn(text, x=uniform(10**6), y=uniform(10**6))
    choice = choose(binding, Side.LEFT, "auto", 1e6, left, right)
    assert isinstance(choice.layout, CellLayout)


def test_an_equality_that_selects_nothing_does_not_decide() -> None:
    text = "l.k = r.k AND abs(l.x - r.x) <= 1"
    binding, left, right = drawn(text, k=uniform(1), x=uniform(10**9))
    choice = choose(binding, Side.LEFT, "auto", 1e6, left, right)
    assert choice.layout.tactic != "hash"


def test_shares_are_near_the_truth() -> None:
    text = "abs(l.x - r.x) <= 50 AND l.y < r.y"
    binding, left, right = drawn(text, x=uniform(10**4), y=uniform(10**4))
    choice = choose(binding, Side.LEFT, "auto", 1e5, left, right)
    band, less = choice.shares.values()
    assert band == pytest.approx(0.01, rel=0.2)
    assert less == pytest.approx(0.5, rel=0.1)


def test_a_layout_in_use_is_kept_unless_another_is_clearly_cheaper() -> None:
    text = "abs(l.x - r.x) <= 10 AND abs(l.y - r.y) <= 10"
    even = drawn(text, x=uniform(10**6), y=uniform(10**6))
    first = choose(even[0], Side.LEFT, "ordered", 1e5, *even[1:])
    again = choose(even[0], Side.LEFT, "ordered", 1e5, *even[1:], current=first)
    assert again.layout is first.layout
    assert isinstance(first.layout, Ordered)
    driver = "x" if "l.x" in str(first.layout.driver) else "y"
    worse = drawn(text, **{driver: uniform(30), "xy".replace(driver, ""): uniform(10**8)})
    moved = choose(even[0], Side.LEFT, "ordered", 1e5, *worse[1:], current=first)
    assert moved.layout is not first.layout


def test_a_layout_gives_way_more_easily_while_few_rows_have_to_be_moved() -> None:
    text = "abs(l.x - r.x) <= 10 AND abs(l.y - r.y) <= 10"
    even = drawn(text, x=uniform(10**6), y=uniform(10**6))
    best = choose(even[0], Side.LEFT, "auto", 1e6, *even[1:])
    second = min(best.others, key=lambda other: other.nanoseconds)
    assert best.best.nanoseconds < second.nanoseconds < 1.5 * best.best.nanoseconds
    current = replace(best, best=second)
    for filled, layout in ((0.0, best.layout), (1.0, second.layout)):
        again = choose(even[0], Side.LEFT, "auto", 1e6, *even[1:], current=current, filled=filled)
        assert again.layout.same(layout)


def test_both_sides_are_kept_in_the_order_of_one_term() -> None:
    text = "abs(l.x - r.x) <= 1 AND abs(l.y - r.y) <= 1"
    binding, left, right = drawn(text, x=uniform(10**8), y=uniform(10**8))
    for term in (0, 1):
        opposite = Ordered(binding.fields(Side.RIGHT), binding.fields(Side.RIGHT)[term])
        choice = choose(binding, Side.LEFT, "ordered", 1e5, left, right, opposite=opposite)
        assert choice.layout.sort_term == opposite.sort_term == term
        assert "sort" not in choice.best.bill
        apart = [e for e in choice.others if e.layout.sort_term != term]
        assert apart
        assert all(estimate.bill["sort"] == 2.0 for estimate in apart)


def test_an_unselective_term_is_not_chosen_to_save_a_sort() -> None:
    text = "abs(l.x - r.x) <= 10 AND abs(l.y - r.y) <= 10"
    binding, left, right = drawn(text, x=uniform(10**8), y=uniform(30))
    fields = binding.fields(Side.RIGHT)
    choice = choose(
        binding, Side.LEFT, "ordered", 1e5, left, right, opposite=Ordered(fields, fields[1])
    )
    assert choice.layout.sort_term == 0
    assert choice.best.bill["sort"] == 2.0


def test_a_join_by_two_terms_sorts_its_rows_once() -> None:
    random = np.random.default_rng(0)
    join = ts.StreamJoin("l.x < r.x AND l.y > r.y", window=WINDOW, tactic="ordered")
    for _ in range(3):
        rows = [random.integers(0, 10**6, (2, 20_000)) for _ in Side]
        left, right = (pa.record_batch({"x": x, "y": x + y // 10_000}) for x, y in rows)
        list(join.push(left=left, right=right))
    columns = {plan["chosen"]["first column"] for plan in join.explain().as_dict()["plan"]}
    assert len(columns) == 1


def test_cells_are_left_when_keys_drift_off_their_end() -> None:
    text = "l.k = r.k AND l.x < r.x AND l.x + 9 > r.x"
    here = drawn(text, k=uniform(5), x=uniform(1000))
    first = choose(here[0], Side.LEFT, "cells", 1e6, *here[1:])
    assert isinstance(first.layout, CellLayout)
    far = drawn(text, k=uniform(5), x=lambda random, rows: 2**60 + random.integers(0, 1000, rows))
    later = choose(here[0], Side.LEFT, "cells", 1e6, *far[1:], current=first)
    assert later.layout is not first.layout
    assert later.layout.quantizer.base > 2**59


def test_samples_are_small_and_hold_only_rows_that_can_match() -> None:
    binding = bound("l.x = r.x")
    x = pa.array([None if i % 2 else i for i in range(10_000)], pa.int64())
    batch = pa.record_batch({**dict.fromkeys("xyzk", x), "s": [""] * 10_000}, schema=NUMBERS)
    taken = sample(binding.keys(Side.LEFT, batch))
    assert taken.keys[0].size == SAMPLE
    assert set(taken.keys[0].tolist()) <= set(range(0, 10_000, 2))
    assert (taken.keys[0][0], taken.keys[0][-1]) == (0, 9998)
    assert taken.valid is None


def test_without_rows_that_can_match_nothing_is_estimated_from_them() -> None:
    binding = bound("l.x = r.x")
    empty = sample(binding.keys(Side.LEFT, pa.RecordBatch.from_pylist([], NUMBERS)))
    assert not choose(binding, Side.LEFT, "auto", 10.0, empty, empty).sampled


# --- The index-based window join -----------------------------------------------------------------


BAND = "abs(l.x - r.x) <= 5"
PER_TUPLE = {"b+tree", "chained", "im-tree", "pim-tree", "round-robin"}


def test_without_a_structure_those_that_take_single_rows_are_compared(folder: Path) -> None:
    choice = chosen(BAND, "ibwj")
    estimates = (choice.best, *choice.others)
    assert {estimate.layout.index for estimate in estimates} == PER_TUPLE
    costs = [estimate.nanoseconds for estimate in estimates]
    assert costs == sorted(costs)


def test_a_named_structure_is_not_compared(folder: Path) -> None:
    choice = chosen(BAND, "ibwj/b+tree")
    assert choice.layout.index == "b+tree"
    assert choice.others == ()


@pytest.mark.parametrize("cheap", sorted(PER_TUPLE))
def test_the_cheapest_structure_is_chosen_and_pim_tree_on_ties(
    folder: Path, cheap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def predict(name: str, *_: Any, **__: Any) -> Cost:
        return Cost(search=1.0 if name == cheap else 2.0, delete=0.0, insert=0.0)

    monkeypatch.setattr(pricing, "predict", predict)
    assert chosen(BAND, "ibwj").layout.index == cheap
    cheap = "all"
    assert chosen(BAND, "ibwj").layout.index == "pim-tree"


def test_estimates_are_those_of_the_cost_model(folder: Path) -> None:
    best = chosen(BAND, "ibwj/im-tree", rows=2.0**20).best
    assert set(best.tuned) == {"merge_ratio"}
    known = {"parameters": best.tuned, "constants": Constants()}
    cost = predict("im-tree", 2**20, best.candidates, **known)
    assert best.steps == cost
    assert best.nanoseconds == pytest.approx(
        cost.total + Constants().batches.match * best.candidates
    )


def test_every_box_is_a_search(folder: Path) -> None:
    text = "l.x != r.x"
    binding, left, right = drawn(text, x=uniform(10**6))
    one = choose(binding, Side.LEFT, "ibwj/b+tree", 1e5, left, right).best
    assert one.boxes == 2.0
    assert one.steps is not None
    cost = predict("b+tree", 1e5, one.candidates / 2, constants=Constants())
    assert one.steps.search == pytest.approx(2 * cost.search)
    assert one.steps.insert == cost.insert


def test_structures_without_an_equation_are_estimated_as_before(folder: Path) -> None:
    best = chosen(BAND, "ibwj/sorted-runs").best
    assert best.steps is None
    assert best.nanoseconds == chosen(BAND, "ordered/sorted-runs").best.nanoseconds


@pytest.mark.parametrize("rows", [1.0, 0.0, 1e9])
@pytest.mark.parametrize("name", sorted(ts.index.names()))
def test_windows_of_any_size_have_an_estimate(folder: Path, name: str, rows: float) -> None:
    assert chosen(BAND, f"ibwj/{name}", rows=rows).best.nanoseconds > 0


def test_explain_shows_the_steps_and_where_constants_come_from(folder: Path) -> None:
    options = {"window": ts.CountWindow(1 << 20), "schemas": (NUMBERS, NUMBERS)}
    join = ts.StreamJoin(BAND, tactic="ibwj/pim-tree", **options)
    for part in (
        "ns per tuple, by step:",
        *(f"{step}: " for step in ("search", "delete", "insert", "merge")),
        "constants of the cost model: defaults",
    ):
        assert part in join.explain(verbose=True), part
    shown = join.explain().as_dict()["plan"][0]["chosen"]
    steps = shown["ns per tuple, by step"]
    assert steps["delete"] == 0.0
    assert 0.0 < sum(steps.values()) < shown["estimated ns per row"]
    Constants(window=1.0).save()
    again = ts.StreamJoin(BAND, tactic="ibwj/pim-tree", **options).explain(verbose=True)
    assert f"constants of the cost model: {CALIBRATED}" in again
    assert json.loads(json.dumps(again.as_dict())) == again.as_dict()
    assert "by step" not in ts.StreamJoin(BAND, tactic="ordered", **options).explain(verbose=True)


def test_a_structure_in_use_is_kept_while_keys_stay_as_they_are(folder: Path) -> None:
    even = drawn(BAND, x=uniform(10**6))
    first = choose(even[0], Side.LEFT, "ibwj", 1e5, *even[1:])
    again = choose(even[0], Side.LEFT, "ibwj", 1e5, *even[1:], current=first)
    assert again.layout is first.layout


# --- Explanations -------------------------------------------------------------------------------


def explained(text: str, **options: Any) -> Explanation:
    join = ts.StreamJoin(text, window=WINDOW, schemas=(NUMBERS, NUMBERS), **options)
    return join.explain(verbose=True)


def test_the_text_says_tactic_index_and_cost() -> None:
    text = explained("abs(l.x - r.x) <= 5 AND l.y * r.y > 3 AND l.z > 1", tactic="ordered")
    for part in (
        "tactic asked for: ordered",
        "tactic: ordered",
        "index: sorted-runs",
        "estimated ns per row: ",
        "candidates per row: ",
        "stored side: left",
        "stored side: right",
        "estimated from: the kind of each term",
        "residuals, evaluated on candidate pairs: l.y * r.y > 3",
        "filters: l.z > 1",
        "count window of 100000",
    ):
        assert part in text, part
    assert "nested loop" not in text


def test_a_nested_loop_is_called_so() -> None:
    for text in ("l.x * r.x > 10", "l.s != r.s"):
        explanation = explained(text)
        assert "no term can be indexed: this is a nested loop over the window" in explanation
        assert "index: nested-loop" in explanation


def test_before_the_columns_are_known() -> None:
    text = ts.StreamJoin("l.x = r.x", window=WINDOW).explain()
    assert "plan: made when the columns of both sides are known: push both, or pass" in text
    unindexed = ts.StreamJoin("l.x * r.x > 1", window=WINDOW).explain()
    assert "this is a nested loop" in unindexed


@pytest.mark.parametrize(
    "text",
    ["l.x = r.x AND l.s = r.s", "abs(l.x - r.x) <= 5 AND abs(l.y - r.y) <= 1", "l.x * r.x > 1"],
)
def test_the_facts_are_plain_values(text: str) -> None:
    explanation = explained(text)
    facts = explanation.as_dict()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["predicate"] == str(Predicate.parse(text))
    plans = {plan["stored side"]: plan for plan in facts["plan"]}
    assert set(plans) == {"left", "right"}
    for plan in plans.values():
        assert plan["chosen"]["estimated ns per row"] > 0
        assert {"tactic", "index", "first column"} <= set(plan["chosen"])


def test_after_rows_the_plan_comes_from_observed_keys() -> None:
    join = ts.StreamJoin("abs(l.x - r.x) <= 5", window=ts.CountWindow(1000))
    batch = pa.record_batch({"x": np.arange(500)})
    list(join.push(left=batch, right=batch))
    list(join.push(left=batch, right=batch))
    assert "estimated from: observed keys" in join.explain(verbose=True)
    assert "from observed keys" in join.explain()
    json.dumps(join.explain().as_dict())


def test_scan_is_only_considered_when_nothing_else_is() -> None:
    assert not any(isinstance(e.layout, Scan) for e in chosen("l.x < r.x").others)
    assert isinstance(chosen("l.x < r.x", "nested-loop").layout, Scan)
