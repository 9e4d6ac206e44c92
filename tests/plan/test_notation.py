"""Tactics as text: what is written is read again, and errors point at the wrong piece."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from thetastream.errors import RegistryError
from thetastream.plan.notation import plain, read, written

PART = st.text("abcXYZ019_+.-", min_size=1, max_size=8)
NAME = st.lists(PART, min_size=1, max_size=3).map("/".join)
WORD = st.from_regex(r"[a-z_][a-z0-9_]{0,6}", fullmatch=True)
SCALAR = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(
        ["true", "none", "1", "1e5", "-", "a b", "'", '"', "\\", "bi-sort", "inf", "("]
    ),
)
VALUE = st.recursive(
    st.one_of(SCALAR, st.lists(SCALAR, max_size=3).map(tuple)),
    lambda inner: st.dictionaries(WORD, inner, min_size=1, max_size=3),
    max_leaves=5,
)
PARAMETERS = st.dictionaries(WORD, VALUE, max_size=4)


def same(a: Any, b: Any) -> bool:
    """Equal, and of the same types: 1 is not true, 1.0 is not 1, -0.0 is not 0.0."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and repr(a) == repr(b)


@given(NAME, PARAMETERS)
@example("a", {"x": "true", "y": True, "z": ("", 1, None), "w": {"v": {"u": -0.0}}})
def test_what_is_written_is_read_again(name: str, parameters: dict[str, Any]) -> None:
    text = written(name, parameters)
    read_name, read_parameters = read(text)
    assert read_name == name
    assert same(read_parameters, parameters), text
    assert written(read_name, read_parameters) == text, "one text for one meaning"


@pytest.mark.parametrize(
    ("text", "name", "parameters"),
    [
        ("auto", "auto", {}),
        ("  auto ( ) ", "auto", {}),
        ("ordered/ptwi/b-tree", "ordered/ptwi/b-tree", {}),
        ("spo-join(background=true,elements=8)", "spo-join", {"background": True, "elements": 8}),
        ("x(a=-3, b=+4, c=0.5, d=.5, e=1e-3,)", "x",
         {"a": -3, "b": 4, "c": 0.5, "d": 0.5, "e": 1e-3}),
        ("x(a=word, b='two words', c=\"it's\", d='\\n')", "x",
         {"a": "word", "b": "two words", "c": "it's", "d": "\n"}),
        ("x(domain=(0, 100), one=(5), no=())", "x", {"domain": (0, 100), "one": (5,), "no": ()}),
        ("x(options.slots=8, options.deep.y=no)", "x",
         {"options": {"slots": 8, "deep": {"y": "no"}}}),
        ("x(inner=per-term/css-tree)", "x", {"inner": "per-term/css-tree"}),
        ("x(a=inf, b=nan, c=1_000, d=1/16, e=1e999)", "x",
         {"a": "inf", "b": "nan", "c": "1_000", "d": "1/16", "e": "1e999"}),
    ],
)  # fmt: skip
def test_texts(text: str, name: str, parameters: dict[str, Any]) -> None:
    assert read(text) == (name, parameters)


@pytest.mark.parametrize(
    ("text", "message", "at", "length"),
    [
        ("", "expected the name of a tactic; the text ends there", 0, 1),
        ("(a=1)", r"expected the name of a tactic; got '\('", 0, 1),
        ("'pim-tree'", "expected the name of a tactic", 0, 10),
        ("a//b", "expected a name between strokes, such as pim-tree", 2, 1),
        ("a/b/", "expected a name between strokes", 4, 1),
        ("a/b*c", r"expected a name between strokes.*got 'b\*c'", 2, 3),
        ("pim tree", "nothing may follow a tactic; got 'tree'", 4, 4),
        ("x(a=1) b", "nothing may follow a tactic; got 'b'", 7, 1),
        ("x(a=1", "expected a comma or a closing parenthesis; the text ends there", 5, 1),
        ("x(a=1 b=2)", "expected a comma or a closing parenthesis; got 'b'", 6, 1),
        ("x(,)", "expected a parameter, as in depth=3; got ','", 2, 1),
        ("x(3=a)", "expected a parameter's name; got '3'", 2, 1),
        ("x(a.=3)", "expected a parameter's name; got 'a.'", 2, 2),
        ("x(depth 3)", "expected = after depth; got '3'", 8, 1),
        ("x(depth=)", r"expected a value for depth; got '\)'", 8, 1),
        ("x(depth==3)", "expected a value for depth; got '='", 8, 1),
        ("x(a=(1, 2)", "expected a comma or a closing parenthesis; the text ends there", 10, 1),
        ("x(a=(1, (2)))", r"expected a value for a; got '\('", 8, 1),
        ("x(a=1, b=2, a=3)", "a was given twice; got 'a'", 12, 1),
        ("x(a=1, a.b=3)", "a already has a value of its own; got 'a.b'", 7, 3),
        ("x(a.b=1, a=3)", "a was given twice; got 'a'", 9, 1),
        ("x(a='b)", "this quote is not closed", 4, 3),
        (r"x(a='\x')", "this text cannot be read", 4, 4),
    ],
)
def test_errors_point_at_the_wrong_piece(text: str, message: str, at: int, length: int) -> None:
    with pytest.raises(RegistryError, match=message) as caught:
        read(text)
    said, shown, marks = str(caught.value).split("\n")
    assert said.startswith(f"tactic {text!r}: ")
    assert shown == f"  {text}"
    assert marks == "  " + " " * at + "^" * length


@given(st.text("ab/(),='\" .1\\\n", max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        name, parameters = read(text)
    except RegistryError:
        return
    assert read(written(name, parameters)) == (name, parameters)


def test_values_become_plain() -> None:
    assert same(plain("a", np.int64(3)), 3)
    assert same(plain("a", np.float32(0.5)), 0.5)
    assert same(plain("a", [1, True, "x"]), (1, True, "x"))
    assert plain("a", {"c": 1, "b": {"d": [2]}}) == {"b": {"d": (2,)}, "c": 1}
    assert plain("a", {}) is None, "like no mapping"


@pytest.mark.parametrize(
    "value", [math.inf, math.nan, object(), {1, 2}, 1j, [[1]], {"a b": 1}, {1: 2}]
)
def test_values_without_a_text_are_refused(value: Any) -> None:
    with pytest.raises(RegistryError, match="parameter depth must be"):
        plain("depth", value)
