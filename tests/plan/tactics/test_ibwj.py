"""The index-based window join: which structures serve, and what drives them."""

from __future__ import annotations

import pytest

import thetastream as ts
from thetastream.errors import PredicateError
from thetastream.plan.choice import choose
from thetastream.plan.tactics.ibwj import Indexed
from thetastream.side import Side
from thetastream.tuplewise.ibwj import joinable

from ..test_layout import bound, offered


def test_one_layout_per_term_that_can_drive() -> None:
    fields = bound("abs(l.x - r.x) <= 2 AND l.k = r.k AND l.y < r.y").fields(Side.RIGHT)
    for name in ts.index.names():
        found = offered(fields, f"ibwj/{name}")
        assert [type(layout) for layout in found] == [Indexed] * 3
        assert {layout.index for layout in found} == {name}
        assert [layout.driver for layout in found] == list(fields)
        for layout in found:
            assert layout.checks == tuple(field for field in fields if field is not layout.driver)
    assert offered([], "ibwj/pim-tree") == []


def test_without_a_name_all_that_take_single_rows_compete() -> None:
    fields = bound("abs(l.x - r.x) <= 2 AND l.k = r.k").fields(Side.RIGHT)
    found = offered(fields, "ibwj")
    assert found[0].index == "pim-tree", "the first of equals"
    kinds = {layout.index for layout in found}
    assert {"pim-tree", "im-tree", "b+tree", "chained"} <= kinds <= set(joinable())
    assert not {"nested-loop", "css-tree"} & kinds
    assert len(found) == 2 * len(kinds)
    assert offered([], "ibwj") == []


@pytest.mark.parametrize("name", ["ibwj", *(f"ibwj/{name}" for name in ts.index.names())])
def test_the_choice_names_tactic_and_structure(name: str) -> None:
    choice = choose(bound("abs(l.x - r.x) <= 2 AND l.y < r.y"), Side.LEFT, name, 100.0)
    assert choice.layout.tactic == "ibwj"
    assert choice.layout.index in ([name.partition("/")[2]] if "/" in name else joinable())
    with pytest.raises(PredicateError, match="no term that can be indexed"):
        choose(bound("l.x * r.x = 4"), Side.LEFT, name, 100.0)
