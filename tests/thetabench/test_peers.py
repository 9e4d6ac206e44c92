"""Every registered contestant answers exactly what a nested loop answers."""

from __future__ import annotations

import pyarrow as pa
import pytest

from thetabench.contestant import MissingPackage, optional, parse_spec
from thetabench.digest import digest
from thetabench.peers import HOME, PEERS, contestant_class, create
from thetabench.query import Query
from thetabench.reference import reference
from thetastream.errors import RegistryError

from .bench_nested import CONDITIONS, answers, feed, pairs

TWO_STREAMS = sorted(CONDITIONS)
SELF_JOINS = ["band", "equal", "plane"]
SHAPES = {
    "usual": {},
    "batch_larger_than_window": {"window": 10, "batch": 25},
    "window_not_full": {"filled": 5, "window": 60},
    "nothing_stored": {"filled": 0},
    "one_row": {"batch": 1, "rows": 52},
}
CASES = [(c, False) for c in TWO_STREAMS] + [(c, True) for c in SELF_JOINS]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("condition", "self_join"), CASES)
@pytest.mark.parametrize("name", PEERS)
def test_contestant_agrees_with_the_nested_loop(
    name: str, condition: str, self_join: bool, shape: str
) -> None:
    data = feed(condition, self_join=self_join, **SHAPES[shape])
    if not PEERS[name].supports(data.query):
        assert not data.query.bands, "only a query without a band may be refused"
        return
    contestant = create(name, data.query)
    contestant.prefill(*data.prefill())
    total = 0
    for push, expected in enumerate(answers(data, condition)):
        answer = contestant.push(data.side(push), data.rows(push))
        assert isinstance(answer, pa.Table)
        assert answer.schema.types == [pa.int64(), pa.int64()]
        assert pairs(answer) == expected, f"push {push}"
        total += len(expected)
    assert total > 0, "a feed without matches proves nothing"
    assert all(seconds >= 0 for seconds in contestant.phases().values())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("condition", "self_join"), CASES)
def test_reference_agrees_with_the_nested_loop(condition: str, self_join: bool, shape: str) -> None:
    data = feed(condition, self_join=self_join, **SHAPES[shape])
    expected = [
        digest(
            pa.table(
                {
                    "id": pa.array([left for left, _ in found.elements()], pa.int64()),
                    "id_right": pa.array([right for _, right in found.elements()], pa.int64()),
                }
            )
        )
        for found in answers(data, condition)
    ]
    assert reference(data, data.pushes) == expected


def test_thetastream_is_first_and_has_every_form() -> None:
    assert next(iter(PEERS)) == HOME
    for text, _ in CONDITIONS.values():
        assert PEERS[HOME].supports(Query.parse(text, 10))


def test_unknown_contestants_and_options_are_refused() -> None:
    with pytest.raises(RegistryError, match="Did you mean 'btrees'"):
        contestant_class("btree")
    with pytest.raises(RegistryError, match="option=value"):
        parse_spec("thetastream:threads")


def test_a_missing_package_says_what_to_install() -> None:
    with pytest.raises(MissingPackage, match=r"pip install -e benchmarks"):
        optional("no_such_package_at_all")
