"""The cost model: equations against figures computed by hand, trends, stored constants."""

from __future__ import annotations

import json
import math
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import thetastream as ts
from thetastream.errors import DataError, RegistryError
from thetastream.plan.cost import (
    CLEARLY,
    FILL,
    Cost,
    Tree,
    best_merge_ratio,
    best_parameters,
    predict,
    priced,
)
from thetastream.prices.batches import Prices
from thetastream.prices.constants import CALIBRATED, TREES_ONLY, Constants, at, calibration_file

# One entry per table: λ, τ and M are constants, as in the paper.
FLAT = Constants(
    search=((0, 40.0),),
    insert=((0, 60.0),),
    delete=((0, 70.0),),
    immutable=((0, 20.0),),
    compare=((0, 5.0),),
    compare_run=((0, 3.0),),
    merge=((0, 2.0),),
    merge_young=((0, 10.0),),
    scan=0.25,
    window=50.0,
)
F = FILL * 32  # rows per leaf and children per inner node of a B⁺-tree
DEFAULT = Constants()
SIZES = [2.0**k for k in range(26)]


def steps(made: Cost) -> tuple[float, ...]:
    return made.search, made.delete, made.insert, made.merge


def flat(structure: str, window: float, rate: float, **parameters: Any) -> Cost:
    return predict(structure, window, rate, parameters=parameters, constants=FLAT)


# --- Heights -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "expected"),
    [(1, 1.0), (32, 1.0), (32 * 16, 2.0), (32 * 16**3, 4.0), (32 * 16**2 * 4, 3.5)],
)
def test_heights_count_the_leaf_and_are_not_rounded(rows: int, expected: float) -> None:
    assert Tree.of(rows, leaf=32, fanout=16).height == pytest.approx(expected)


def test_levels_are_smaller_by_the_fan_out() -> None:
    tree = Tree.of(32 * 16**2 * 4, leaf=32, fanout=16, copies=10)
    assert [nodes for nodes, _ in tree.levels] == pytest.approx([10240, 640, 40, 10])
    assert [part for _, part in tree.levels] == pytest.approx([1, 1, 1, 0.5])
    assert tree.leaves == 10240
    assert tree.inner.height == pytest.approx(2.5)


def test_a_node_costs_by_how_many_nodes_its_level_has() -> None:
    table = ((4.0, 10.0), (8.0, 50.0))
    tree = Tree.of(16**3, leaf=16, fanout=16)  # levels of 256, 16 and 1 nodes
    assert tree.visit(table) == pytest.approx(50 + 10 + 10)


# --- Equations, by hand --------------------------------------------------------------------------


def test_equation_1_is_the_sum_of_the_steps() -> None:
    assert Cost(search=1.0, delete=2.0, insert=3.0, merge=4.0).total == 10.0
    assert Cost(1.0, 2.0, 3.0, 4.0).as_dict() == {
        "search": 1.0, "delete": 2.0, "insert": 3.0, "merge": 4.0
    }  # fmt: skip


def test_equation_2_b_plus_tree() -> None:
    made = flat("b+tree", F**4, 2.0)  # H_b = 4
    assert steps(made) == pytest.approx((4 * 40 + 2 * 5, 3 * 40 + 70, 3 * 40 + 60, 0))


def test_an_optimistic_tree_is_taken_for_a_b_plus_tree() -> None:
    assert flat("optimistic-tree", 1e5, 2.0) == flat("b+tree", 1e5, 2.0)


def test_equation_3_chain_of_b_plus_trees() -> None:
    window = 3 * F**3  # three archived subindexes of F³ rows, an active one half as full
    active = 3 - math.log(2) / math.log(F)
    made = flat("chained", window, 2.0, length=4, immutable=False)
    search = 3 * 3 * 40 + active * 40 + 2 * 5 * (1 + 1 / 6)
    assert steps(made) == pytest.approx((search, 0, (active - 1) * 40 + 60, 0))


def test_equation_3_chain_of_immutable_trees() -> None:
    window = 2**17  # H = 4 for leaves of 32 and a fan-out of 16
    active = 1 + math.log(2**16 / F) / math.log(F)
    made = flat("chained", window, 2.0, run_fanout=16)
    search = 4 * 20 + active * 40 + 2 * 3 + 1 * 5
    assert steps(made) == pytest.approx((search, 0, (active - 1) * 40 + 60, 2.0))


def test_equation_4_round_robin() -> None:
    made = flat("round-robin", 5 * F**3, 2.0, partitions=5)  # H_p = 3
    assert steps(made) == pytest.approx((5 * 3 * 40 + 2 * 5, 2 * 40 + 70, 2 * 40 + 60, 0))


def test_equation_5_im_tree() -> None:
    made = flat("im-tree", 2**17, 2.0, merge_ratio=1 / 8)  # H_S = 4
    young = 1 + math.log(2**13 / F) / math.log(F)  # half of m w
    search = 4 * 20 + young * 40 + 2 * 3 + 2 * 5 / 16
    assert steps(made) == pytest.approx((search, 0, (young - 1) * 40 + 60, 2 * 8 + 10))


def test_equation_6_pim_tree() -> None:
    made = flat("pim-tree", 2**17, 2.0)  # H_S = 4, D_I = 2, 256 subindexes of 16 rows: H'_I = 1
    search = 4 * 20 + 1 * 40 + 2 * 3 + 2 * 5 / 32
    assert steps(made) == pytest.approx((search, 0, 2 * 20 + 60, 2 * 16 + 10))


def test_equation_6_with_a_depth() -> None:
    made = flat("pim-tree", 2**17, 0.0, depth=1)  # 16 subindexes of 256 rows
    young = 1 + math.log(256 / F) / math.log(F)
    assert steps(made) == pytest.approx(
        (4 * 20 + young * 40, 0, 20 + (young - 1) * 40 + 60, 2 * 16 + 10)
    )
    single = flat("pim-tree", 2**17, 0.0, depth=0)  # one subindex is an IM-Tree
    assert single == flat("im-tree", 2**17, 0.0)
    assert flat("pim-tree", 2**17, 0.0, depth=9) == flat("pim-tree", 2**17, 0.0, depth=3)


def test_a_css_tree_is_built_anew_for_every_row() -> None:
    made = flat("css-tree", 2**17, 2.0)
    assert steps(made) == pytest.approx((4 * 20 + 2 * 3, 0, 0, 2**17 * 2 + 10))


def test_a_nested_loop_passes_the_window() -> None:
    assert steps(flat("nested-loop", 1000, 2.0)) == (250.0, 0.0, 0.0, 0.0)


# --- Trends, with the defaults -------------------------------------------------------------------


def total(structure: str, window: float, rate: float = 2.0, **parameters: Any) -> float:
    return predict(structure, window, rate, parameters=parameters, constants=DEFAULT).total


@pytest.mark.parametrize("structure", priced())
def test_cost_grows_with_the_window_and_the_match_rate(structure: str) -> None:
    costs = [total(structure, window) for window in SIZES]
    assert all(0 < a <= b for a, b in pairwise(costs))
    assert total(structure, 2**20, 0.0) <= total(structure, 2**20, 100.0)


@pytest.mark.parametrize("structure", ["im-tree", "pim-tree"])
def test_a_larger_merge_ratio_merges_less_and_searches_more(structure: str) -> None:
    made = [
        predict(structure, 2**20, 2.0, parameters={"merge_ratio": 2.0**-k}, constants=DEFAULT)
        for k in range(8, -1, -1)
    ]
    for often, seldom in pairwise(made):
        assert seldom.merge < often.merge
        assert seldom.search >= often.search
        assert seldom.insert >= often.insert


def test_the_order_of_the_paper_at_a_million_rows() -> None:
    assert total("b+tree", 2**20) > total("im-tree", 2**20) >= total("pim-tree", 2**20)
    assert total("nested-loop", 2**20) > 10 * total("b+tree", 2**20)
    assert total("chained", 2**20) < total("chained", 2**20, immutable=False)


@pytest.mark.parametrize("immutable", [False, True])
def test_longer_chains_are_searched_longer(immutable: bool) -> None:
    costs = [
        predict(
            "chained",
            2**20,
            2.0,
            parameters={"length": length, "immutable": immutable},
            constants=DEFAULT,
        )
        for length in (2, 4, 8, 16)
    ]
    assert all(a.search < b.search for a, b in pairwise(costs))
    assert all(a.insert > b.insert for a, b in pairwise(costs))


def test_more_partitions_are_searched_longer_and_changed_faster() -> None:
    few, many = (
        predict("round-robin", 2**20, 2.0, parameters={"partitions": p}, constants=DEFAULT)
        for p in (2, 8)
    )
    assert few.search < many.search
    assert few.insert > many.insert
    assert few.delete > many.delete
    one = predict("round-robin", 2**20, 2.0, parameters={"partitions": 1}, constants=DEFAULT)
    assert one == predict("b+tree", 2**20, 2.0, constants=DEFAULT)


@pytest.mark.parametrize("structure", ["im-tree", "pim-tree"])
@pytest.mark.parametrize("window", [2**10, 2**16, 2**22])
def test_the_best_merge_ratio_is_the_cheapest_power_of_two(structure: str, window: int) -> None:
    best = best_merge_ratio(structure, window, 2.0, constants=DEFAULT)
    ratios = [2.0**-k for k in range(min(20, int(math.log2(window))) + 1)]
    assert best in ratios
    assert total(structure, window, merge_ratio=best) == min(
        total(structure, window, merge_ratio=ratio) for ratio in ratios
    )
    dear = Constants(merge=((0, 1000.0),))
    assert best_merge_ratio(structure, window, 2.0, constants=dear) == 1.0


def test_other_parameters_count_for_the_best_merge_ratio() -> None:
    settings = {"slots": 8, "fanout": 8}
    best = best_merge_ratio("im-tree", 2**18, 2.0, parameters=settings, constants=FLAT)
    other = {2.0**-k: flat("im-tree", 2**18, 2.0, merge_ratio=2.0**-k, **settings).total
             for k in range(19)}  # fmt: skip
    assert other[best] == min(other.values())


# --- What cannot be predicted --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: flat("pim-tre", 10, 1.0), r"no cost model for 'pim-tre'.*mean 'pim-tree'\?"),
        (lambda: flat("sorted-runs", 10, 1.0), "no cost model for 'sorted-runs'; there is one"),
        (
            lambda: flat("pim-tree", 10, 1.0, merge_ration=1.0),
            r"pim-tree has no parameter 'merge_ration'; it has .*Did you mean 'merge_ratio'\?",
        ),
        (lambda: flat("nested-loop", 10, 1.0, slots=3), "'slots'; it has none"),
        (lambda: flat("chained", 10, 1.0, length=1), "length must be at least 2; got 1"),
        (lambda: flat("im-tree", 10, 1.0, merge_ratio=0.0), "merge_ratio must be at least"),
        (lambda: flat("b+tree", 0, 1.0), "window must be at least 1"),
        (lambda: flat("b+tree", math.inf, 1.0), "both finite"),
        (lambda: flat("b+tree", 10, -1.0), "match_rate at least 0"),
        (lambda: flat("b+tree", 10, math.nan), "match_rate at least 0"),
        (lambda: best_merge_ratio("b+tree", 10, 1.0), "b.tree does not merge; im-tree and pim-"),
    ],
)
def test_mistakes_are_named(call: Any, message: str) -> None:
    with pytest.raises(RegistryError, match=message):
        call()


# --- Tables and files ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, 40.0), (2**10, 40.0), (2**11, 50.0), (2**12, 60.0), (2**14, 80.0), (0, 40.0)],
)
def test_tables_are_interpolated_and_carried_on(count: float, expected: float) -> None:
    assert at(((10, 40.0), (12, 60.0)), count) == pytest.approx(expected)
    assert at(((10, 40.0),), count) == 40.0


def test_what_is_carried_on_never_falls_below_zero() -> None:
    assert at(((10, 40.0), (12, 10.0)), 2**20) == 0.0


def test_without_a_calibration_there_are_defaults(folder: Path) -> None:
    assert calibration_file().parent == folder
    assert Constants.load() == Constants()
    assert Constants.load().source == "defaults"


def test_what_was_saved_is_loaded_and_used(folder: Path) -> None:
    file = FLAT.save(machine={"cpu": "a good one"})
    assert file == calibration_file()
    assert json.loads(file.read_text())["machine"] == {"cpu": "a good one"}
    assert list(folder.iterdir()) == [file]
    loaded = Constants.load()
    assert loaded.source == CALIBRATED
    assert loaded.as_dict() == FLAT.as_dict()
    assert predict("pim-tree", 2**17, 2.0) == flat("pim-tree", 2**17, 2.0)


def test_a_new_calibration_is_noticed(folder: Path) -> None:
    file = FLAT.save()
    assert Constants.load().window == 50.0
    Constants(window=1.0).save()
    later = file.stat().st_mtime_ns + 1_000_000_000
    os.utime(file, ns=(later, later))
    assert Constants.load().window == 1.0
    file.unlink()
    assert Constants.load().source == "defaults"


def test_a_calibration_can_lie_elsewhere(folder: Path, tmp_path: Path) -> None:
    file = FLAT.save(tmp_path / "new" / "mine.json")
    assert Constants.load(file).as_dict() == FLAT.as_dict()
    assert Constants.load().source == "defaults"
    with pytest.raises(DataError, match="no calibration at .*index calibrate"):
        Constants.load(tmp_path / "none.json")


def test_the_environment_may_name_a_calibration(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THETASTREAM_CALIBRATION", str(tmp_path / "mine.json"))
    with pytest.raises(DataError, match=r"no calibration at .*mine\.json; run"):
        Constants.load()
    assert FLAT.save() == tmp_path / "mine.json"
    assert Constants.load().as_dict() == FLAT.as_dict()


def test_a_calibration_from_before_batches_were_measured_is_read(folder: Path) -> None:
    old = {name: value for name, value in FLAT.as_dict().items() if name != "batches"}
    calibration_file().write_text(json.dumps({"format": 1, "constants": old}))
    loaded = Constants.load()
    assert loaded.source == TREES_ONLY
    assert loaded.search == FLAT.search
    assert loaded.batches == Prices()


def changed(**values: Any) -> str:
    return json.dumps({"format": 2, "constants": {**FLAT.as_dict(), **values}})


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "Expecting value"),
        ("{", "cannot be used"),
        ("[]", "cannot be used"),
        ("\xff\x00", "cannot be used"),
        ("{}", "'format' is missing"),
        ('{"format": 1}', "'constants' is missing"),
        ('{"format": 0, "constants": {}}', "its format is 0, not 2"),
        ('{"format": 1, "constants": {"search": [[1, 2]]}}', "'insert' is missing"),
        (changed(search=[]), "search is"),
        (changed(search=3.0), "cannot be used"),
        (changed(search=[[2, 1.0], [1, 1.0]]), "not nanoseconds by ascending size"),
        (changed(merge=[[1, -1.0]]), "merge is"),
        (changed(merge=[[1, math.nan]]), "merge is"),
        (changed(merge=[[1, 2, 3]]), "cannot be used"),
        (changed(scan="fast"), "cannot be used"),
        (changed(scan=[[1, 2.0]]), "cannot be used"),
        (changed(window=math.inf), "window is"),
        (changed(window=None), "cannot be used"),
        (changed(batches={}), "'push' is missing"),
        (changed(batches={**Prices().as_dict(), "merge": -1}), "merge is"),
    ],
)
def test_a_broken_calibration_is_reported(folder: Path, text: str, what: str) -> None:
    calibration_file().write_text(text, encoding="latin-1")
    with pytest.raises(DataError, match=what) as caught:
        Constants.load()
    assert "run `thetastream index calibrate` again" in str(caught.value)
    assert str(calibration_file()) in str(caught.value)


# --- Parameters by Equations 5 and 6 -------------------------------------------------------------


@pytest.mark.parametrize("name", ["im-tree", "pim-tree"])
@pytest.mark.parametrize("rate", [0.0, 2.0, 300.0])
@pytest.mark.parametrize("size", [1, 10, 17, 22])
def test_chosen_parameters_cost_least(name: str, rate: float, size: int) -> None:
    known = Constants()
    best = best_parameters(name, 2.0**size, rate, constants=known)
    assert set(best) == {"merge_ratio", "depth"} & set(ts.index.create(name).parameters)
    rate = max(rate, 1.0) if rate < 2 else 256.0 if rate == 300.0 else rate  # as it is rounded

    def total(**changed: Any) -> float:
        settings = {**best, **changed}
        return predict(name, 2.0**size, rate, parameters=settings, constants=known).total

    for ratio in (2.0**-power for power in range(min(size, 20))):
        assert total() <= total(merge_ratio=ratio) + 1e-9
    for depth in range(4) if "depth" in best else ():
        assert CLEARLY * total() <= total(depth=depth) + 1e-9


def test_parameters_that_were_given_are_not_chosen() -> None:
    given = {"merge_ratio": 0.5, "slots": 8}
    found = best_parameters("pim-tree", 2**17, 2.0, parameters=given, constants=Constants())
    assert set(found) == {"depth"}
    both = {**given, "depth": 1}
    assert best_parameters("pim-tree", 2**17, 2.0, parameters=both, constants=Constants()) == {}
    assert best_parameters("chained", 2**17, 2.0) == {}


def test_more_matches_ask_for_earlier_merges() -> None:
    """T_I is read leaf by leaf, and T_S holds what has expired: both cost per match."""
    few, many = (
        best_parameters("im-tree", 2**20, rate, constants=Constants())["merge_ratio"]
        for rate in (1.0, 4096.0)
    )
    assert many < few
