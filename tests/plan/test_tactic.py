"""Tactics as values: what a name means, which parameters it takes, and what errors say."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

import thetastream as ts
from thetastream.errors import OptionError, RegistryError
from thetastream.index.registry import listed, parameters
from thetastream.plan.tactics.registry import families, family, tactics

WINDOW = ts.CountWindow(100)
FAMILIES = ["ordered", "ibwj", "panjoin", "spo-join"]


def join(tactic: Any, **options: Any) -> ts.StreamJoin:
    return ts.StreamJoin("l.x < r.x AND l.y > r.y", window=WINDOW, tactic=tactic, **options)


# --- A value ------------------------------------------------------------------------------------


def test_text_and_object_are_equal() -> None:
    asked = ts.Tactic("spo-join", elements=8, background=True)
    assert asked == ts.Tactic("spo-join(background=true, elements=8)")
    assert hash(asked) == hash(ts.Tactic("spo-join( elements = 8 , background = true )"))
    assert str(asked) == "spo-join(background=true, elements=8)"
    assert repr(asked) == "Tactic('spo-join(background=true, elements=8)')"
    assert asked == ts.Tactic("spo-join(elements=8)", background=True)
    assert dict(asked.parameters) == {"background": True, "elements": 8}
    for other in ("spo-join", "spo-join(elements=8)", "spo-join(background=1, elements=8)"):
        assert asked != ts.Tactic(other)
    assert asked != str(asked)


def test_a_tactic_travels() -> None:
    asked = ts.Tactic("ordered/ptwi/b-tree", options={"node_bytes": 256}, background=False)
    assert pickle.loads(pickle.dumps(asked)) == asked
    assert ts.Tactic.of(asked) is asked
    assert str(asked) == "ordered/ptwi/b-tree(background=false, options.node_bytes=256)"


def test_parameters_cannot_be_changed() -> None:
    asked = ts.Tactic("pim-tree", depth=3)
    with pytest.raises(TypeError):
        asked.parameters["depth"] = 4  # type: ignore[index]


def test_a_parameter_is_given_once() -> None:
    with pytest.raises(RegistryError, match="depth was given twice, in the text and as an arg"):
        ts.Tactic("pim-tree(depth=3)", depth=3)


@pytest.mark.parametrize("wrong", [None, 3, b"auto", ["auto"]])
def test_a_tactic_is_text(wrong: Any) -> None:
    with pytest.raises(RegistryError, match=r"a tactic is text such as .*; got "):
        join(wrong)


# --- Names --------------------------------------------------------------------------------------


def test_the_registered_tactics() -> None:
    names = ["auto", "ordered", "ibwj", "panjoin", "spo-join", "hash", "cells", "nested-loop"]
    assert tactics() == names == ts.tactics()
    for name, found in zip(names, families(), strict=True):
        assert found is family(name)
        assert found.name == name
        assert found.summary
        assert found.needs or name in ("auto", "nested-loop"), "these serve everything"
        assert set(found.structures()) <= set(ts.index.names())


def test_names_are_read() -> None:
    assert (ts.Tactic("auto").family.name, ts.Tactic("auto").index) == ("auto", None)
    for name in FAMILIES:
        assert (ts.Tactic(name).family.name, ts.Tactic(name).index) == (name, None)
        for index in ts.index.names():
            asked = ts.Tactic(f"{name}/{index}")
            assert (asked.family.name, asked.index) == (name, index)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *((name, "ibwj") for name in ("pim-tree", "im-tree", "b+tree", "chained", "round-robin")),
        *((name, "panjoin") for name in ("subwindows", "bi-sort", "rap-table", "wib-tree", "llat")),
        *((name, "spo-join") for name in ("po-join", "per-term", "per-term/css-tree")),
        *((name, "ordered") for name in ("sorted-runs", "zoned-runs", "css-tree", "b-tree")),
        *((name, "ordered") for name in ("ptwi/b-tree", "incremental/b-tree", "split-join")),
    ],
)
def test_a_structure_alone_means_the_tactic_that_suits_it(name: str, expected: str) -> None:
    asked = ts.Tactic(name)
    assert (asked.family.name, asked.index) == (expected, name)


def test_every_structure_suits_one_tactic() -> None:
    for name in ts.index.names():
        suiting = [found.name for found in families() if found.suits(ts.index.structure(name))]
        assert len(suiting) == 1, name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("orderd", r"no tactic 'orderd'; there are auto, .*Did you mean 'ordered'\?$"),
        ("ibjw", r"no tactic 'ibjw'; there are .*Did you mean 'ibwj'\?$"),
        ("pimtree", r"no tactic 'pimtree'; .* every structure: b\+tree, .* mean 'pim-tree'\?$"),
        ("ibwj/pimtree", r"no index 'pimtree'; there are .*Did you mean 'pim-tree'\?$"),
        ("ordered/sorted-run", r"no index 'sorted-run'; there are .*Did you mean 'sorted-runs'\?$"),
        ("b-tree/css-tree", "index 'b-tree' holds no other structure"),
        (
            "hash/sorted-runs",
            "only the tactics 'ordered', .*, 'spo-join' take an index, as in 'ordered/sorted-runs'",
        ),
        ("", "expected the name of a tactic"),
    ],
)
def test_unknown_names(name: str, message: str) -> None:
    with pytest.raises(RegistryError, match=message):
        _ = ts.Tactic(name).family
    with pytest.raises(RegistryError, match=message):
        join(name)


# --- Parameters ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in ts.index.names() if parameters(n)])
def test_a_wrong_parameter_is_told_all_of_them(name: str) -> None:
    known = parameters(name)
    with pytest.raises(RegistryError, match=r"has no parameter 'colour'; it has ") as caught:
        join(ts.Tactic(f"ordered/{name}", colour=3))
    for word, parameter in known.items():
        assert f"{word}: {parameter.kind} = {parameter.default!r}" in str(caught.value)
    word = next(iter(known))
    with pytest.raises(
        RegistryError, match=rf"{word} must be of type .*; got \(1, 2, 3\)"
    ) as caught:
        join(ts.Tactic(f"ordered/{name}", **{word: (1, 2, 3)}))
    assert listed(name) in str(caught.value)


@pytest.mark.parametrize(
    ("tactic", "message"),
    [
        ("pim-tree(dept=3)", r"no parameter 'dept'; .*Did you mean 'depth'\?"),
        ("pim-tree(depth=3.0)", "depth must be of type int; got 3.0 .float."),
        ("pim-tree(depth=true)", "depth must be of type int; got True .bool."),
        ("pim-tree(depth='3')", "depth must be of type int; got '3' .str."),
        ("pim-tree(merge_ratio=1/16)", "merge_ratio must be of type float; got '1/16' .str."),
        ("pim-tree(depth=-2)", "depth must be at least -1; got -2"),
        ("spo-join(background=1)", "background must be of type bool; got 1 .int."),
        ("spo-join(probing=bits)", "probing must be one of .*; got 'bits'"),
        ("spo-join(intersect=hsah)", r"intersect must be one of .*Did you mean 'hash'\?"),
        ("per-term/css-tree(inner=b-tree)", "the structure inside was given twice"),
        ("panjoin(inside=bisort)", r"inside must be auto, .*Did you mean 'bi-sort'\?"),
        ("rap-table(domain=(1, 2, 3))", r"domain must be of type tuple\[int, int\] \| None; got"),
        ("rap-table(domain=(5, 5))", r"domain must be \(low, high\), low < high; got \(5, 5\)"),
        ("llat(sigma=1.0)", "sigma must be above 1; got 1.0"),
        ("ordered(ratio=0)", "ratio must be at least 1; got 0"),
        ("ptwi/b-tree(options.node_bytes=1)", "node_bytes must be at least 192; got 1"),
        ("ptwi/b-tree(options.nodes=256)", r"no parameter 'nodes'.*Did you mean 'node_bytes'\?"),
        ("ptwi/b-tree(options=3)", r"options must be of type Mapping.*; got 3"),
        ("csb+tree(keys=256)", "keys must be below 256; got 256"),
        ("ibwj(depth=-2)", "depth must be at least -1; got -2"),
        ("pim-tree(columns=2)", "no parameter 'columns'"),
        ("pim-tree(capacity=2)", "no parameter 'capacity'"),
    ],
)
def test_wrong_values(tactic: str, message: str) -> None:
    with pytest.raises(RegistryError, match=message) as caught:
        join(tactic)
    assert ": int = " in str(caught.value) or "given twice" in str(caught.value)


def test_without_a_structure_those_that_have_the_parameters_serve() -> None:
    assert ts.Tactic("ibwj", merge_ratio=0.5).structures == ("pim-tree", "im-tree")
    assert ts.Tactic("ibwj", depth=2).structures == ("pim-tree",)
    assert ts.Tactic("ordered", ratio=4).structures == ("sorted-runs", "zoned-runs")
    assert ts.Tactic("panjoin/bi-sort", buffer=4).structures == ("bi-sort",)
    assert ts.Tactic("auto").structures == ()
    with pytest.raises(RegistryError, match="'ordered' has a parameter 'depth'; sorted-runs has r"):
        join("ordered(depth=3)")
    with pytest.raises(RegistryError, match="has a parameter 'rato'.*Did you mean 'ratio'"):
        join("hash(rato=3)")
    with pytest.raises(RegistryError, match="has all these parameters; pim-tree has merge_ratio"):
        join("ibwj(depth=2, length=3)")
    with pytest.raises(RegistryError, match="auto chooses among structures, .*name the structure"):
        join("auto(ratio=3)")
    with pytest.raises(RegistryError, match="nested-loop has none"):
        join("nested-loop(ratio=3)")


def indexes(made: ts.StreamJoin) -> list[Any]:
    engine: Any = made._engine
    return [
        stored.index for stream in engine.streams.values() for stored in stream.indexes.values()
    ]


SCHEMA = pa.schema([("x", pa.int64()), ("y", pa.int64())])


@pytest.mark.parametrize(
    ("tactic", "told"),
    [
        ("pim-tree(depth=1, merge_ratio=0.5)", {"depth": 1, "merge_ratio": 0.5}),
        ("ibwj/chained(length=4, immutable=false)", {"length": 4, "immutable": False}),
        ("ibwj(merge_ratio=0.5)", {"merge_ratio": 0.5}),
        ("panjoin(subwindows=8, inside=rap-table)", {"subwindows": 8, "inside": "rap-table"}),
        ("rap-table(domain=(-5, 100), sigma=2)", {"domain": (-5, 100), "sigma": 2}),
        ("spo-join(background=true, ratio=0)", {"background": True, "ratio": 0}),
        ("spo-join/po-join(probing=sweep)", {"probing": "sweep"}),
        ("per-term(intersect=hash)", {"intersect": "hash"}),
        ("per-term(options.slots=4)", {"options": {"slots": 4}}),
        ("ordered/ptwi/b-tree(options.node_bytes=256)", {"options": {"node_bytes": 256}}),
        ("ordered(ratio=3)", {"ratio": 3}),
        ("split-join(workers=3)", {"workers": 3}),
    ],
)  # fmt: skip
def test_parameters_reach_the_indexes_and_the_explanation(tactic: str, told: Any) -> None:
    made = join(tactic, schemas=(SCHEMA, SCHEMA))
    for index in indexes(made):
        assert told.items() <= index.parameters.items()
    facts = made.explain().as_dict()
    assert facts["tactic asked for"] == str(ts.Tactic(tactic))
    plain = {word: list(v) if isinstance(v, tuple) else v for word, v in told.items()}
    for plan in facts["plan"]:
        assert plan["chosen"]["parameters"] == plain


def test_parameters_reach_hash_and_cells() -> None:
    for tactic in ("hash(ratio=3)", "cells(ratio=3)"):
        made = ts.StreamJoin(
            "l.x = r.x AND abs(l.y - r.y) <= 3", window=WINDOW, tactic=tactic,
            schemas=(SCHEMA, SCHEMA),
        )  # fmt: skip
        assert [index.ratio for index in indexes(made)] == [3, 3]


def test_the_costs_of_trees_follow_their_parameters() -> None:
    costs = []
    for ratio in (1.0, 2.0**-10):
        made = join(ts.Tactic("im-tree", merge_ratio=ratio), schemas=(SCHEMA, SCHEMA))
        costs.append(made.explain().as_dict()["plan"][0]["chosen"]["ns per tuple, by step"])
    assert costs[0]["merge"] < costs[1]["merge"]


def test_workers_and_slide_are_parameters_like_others() -> None:
    window = ts.CountWindow(60, slide=20)
    options: Any = {"window": window, "schemas": (SCHEMA, SCHEMA)}
    on = "l.x < r.x AND l.y > r.y"
    for made in (
        ts.StreamJoin(on, tactic="spo-join", workers=2, **options),
        ts.StreamJoin(on, tactic="spo-join(workers=2)", **options),
    ):
        assert {(index.workers, index.slide) for index in indexes(made)} == {(2, 20)}
        shown = made.explain().as_dict()["plan"][0]["chosen"]["parameters"]
        assert shown == {"slide": 20, "workers": 2}
    made = ts.StreamJoin(on, tactic="spo-join(slide=30)", **options)
    assert {index.slide for index in indexes(made)} == {30}, "what was given wins"
    made = ts.StreamJoin(on, tactic="ordered/split-join", workers=3, **options)
    assert {index.workers for index in indexes(made)} == {3}
    with pytest.raises(
        OptionError, match=r"twice: workers=3, and in tactic='spo-join\(workers=2\)'"
    ):
        join("spo-join(workers=2)", workers=3)


def test_a_point_in_an_interval_keeps_one_order() -> None:
    on = "l.x >= r.x AND l.x <= r.y"
    for tactic, expected in (
        ("spo-join(elements=2)", ["sorted-runs", "spo-join"]),
        ("spo-join/po-join(ratio=2)", ["po-join", "po-join"]),
    ):
        made = ts.StreamJoin(on, window=WINDOW, tactic=tactic, schemas=(SCHEMA, SCHEMA))
        assert [index.name for index in indexes(made)] == expected
