"""A wrong option is refused at once, with OptionError: never accepted, never put off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import thetastream as ts
from thetastream.errors import OptionError, WindowError
from thetastream.options.checks import read_count, read_number
from thetastream.relation.join.cache import Policy

BAND = "abs(l.x - r.x) <= 1"
COUNTS = ("threads", "workers", "batch_rows", "collect")
NO_COUNTS: tuple[Any, ...] = (0, -1, 1.5, 2.0, "2", True)

OF_ANY_JOIN: list[tuple[dict[str, Any], str]] = [
    ({"suffix": 5}, "suffix must be text; got 5"),
    ({"suffix": None}, "suffix must be text; got None"),
    ({"columns": "x"}, "columns must be a list of names of output columns.*; got 'x'"),
    ({"columns": 5}, "columns must be a list of names"),
    ({"columns": []}, "at least one output column"),
    ({"columns": ["x", 5]}, "columns must be names of output columns; got 5 among them"),
    ({"batch_rows": "many"}, "batch_rows must be a whole number of at least 1; got 'many'"),
]
OF_TWO_STREAMS: list[tuple[dict[str, Any], str]] = [
    *OF_ANY_JOIN,
    ({"self_join": "yes"}, "self_join must be True or False; got 'yes'"),
    ({"self_join": 1}, "self_join must be True or False; got 1"),
    ({"output": "counts"}, "output must be one of rows, pairs.*Did you mean 'count'"),
    ({"output": None}, "output must be one of rows"),
    ({"schemas": 5}, "schemas must be a pair of Arrow schemas"),
    ({"schemas": (pa.schema([("x", pa.int64())]),)}, "schemas must be a pair"),
    ({"schemas": ("x", "y")}, "schemas must be a pair"),
    ({"tactic": 5}, "a tactic is text"),
    ({"tactic": "hsah"}, "hsah"),
]
OF_A_STREAM_JOIN: list[tuple[dict[str, Any], str]] = [
    *OF_TWO_STREAMS,
    *(
        ({word: wrong}, f"{word} must be a whole number of at least 1; got")
        for word in COUNTS
        for wrong in NO_COUNTS
    ),
    ({"threads": None}, "threads must be a whole number"),
    ({"how": "inn"}, "how must be one of inner.*got 'inn'.*Did you mean 'inner'"),
    ({"how": None}, "how must be one of inner.*; got None"),
    ({"collect_time": "soon"}, "collect_time: cannot read 'soon' as a duration"),
    ({"collect_time": 5}, "collect_time"),
    ({"collect_time": "-1 s"}, "collect_time"),
    ({"clock": 5}, "clock must be a function"),
    ({"workers": 2, "tactic": "hash"}, "workers=2 needs tactic="),
    ({"output": "count", "how": "left"}, "for inner joins"),
    ({"output": "pairs", "columns": ["x"]}, "leave one of the two out"),
]
OF_A_PARALLEL_JOIN: list[tuple[dict[str, Any], str]] = [
    *OF_TWO_STREAMS,
    *(({"threads": wrong}, "threads must be a whole number") for wrong in (-1, 65, 1.5, True)),
    *(({"task_size": wrong}, "task_size must be a whole number") for wrong in NO_COUNTS),
    ({"perturb": -1}, "perturb must be a whole number of at least 0"),
    ({"merge": "never"}, "merge must be one of blocking, non-blocking; got 'never'"),
    ({"parameters": 5}, "parameters must be a mapping"),
    ({"parameters": []}, "parameters must be a mapping"),
    ({"parameters": {"depht": 3}}, "Did you mean 'depth'"),
    ({"structure": "pim"}, "structure must be one of"),
    ({"output": "count"}, "no output='count'"),
]
OF_A_WINDOW_INDEX: list[tuple[dict[str, Any], str]] = [
    *(({"subwindows": wrong}, "subwindows must be a whole number") for wrong in NO_COUNTS),
    ({"index": "b-tree", "subwindows": 4}, "Use index='ptwi/b-tree', or write"),
    ({"index": "radix"}, "no index 'radix'"),
    ({"index": 5}, "a tactic is text"),
    ({"depht": 3}, "depht"),
]
OF_A_RELATION_JOIN: list[tuple[dict[str, Any], str]] = [
    *OF_ANY_JOIN,
    ({"how": "right"}, "use inner, left, semi or anti"),
    ({"how": 5}, "how must be one of"),
    ({"cache": None}, "cache must be one of utility, lru, none; got None"),
    ({"plan": 5}, "plan must be one of"),
    ({"split": "half"}, "split must be a number; got 'half'"),
    ({"split": 1}, "0 ≤ split < 1"),
    ({"memory": "lots"}, "such as '64 MB'"),
    ({"deadline": "soon"}, "deadline: cannot read 'soon' as a duration"),
    ({"input_rows": 0}, "input_rows must be a whole number"),
    ({"max_scan": 1.5}, "max_scan must be a whole number"),
]


def named(cases: list[tuple[dict[str, Any], str]]) -> list[Any]:
    return [pytest.param(options, text, id=str(options)[:60]) for options, text in cases]


@pytest.mark.parametrize(("options", "message"), named(OF_A_STREAM_JOIN))
def test_of_a_stream_join(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ts.StreamJoin(BAND, **{"window": ts.CountWindow(5), **options})


@pytest.mark.parametrize(("options", "message"), named(OF_A_PARALLEL_JOIN))
def test_of_a_parallel_join(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ts.ParallelJoin(BAND, **{"window": ts.CountWindow(5), **options})


def test_threads_that_are_changed() -> None:
    join = ts.ParallelJoin(BAND, window=ts.CountWindow(5))
    for wrong in (0, 65, "2"):
        with pytest.raises(OptionError, match="threads must be a whole number from 1 to 64"):
            join.threads = wrong  # type: ignore[assignment]
    assert join.threads == 2


@pytest.mark.parametrize(("options", "message"), named(OF_A_WINDOW_INDEX))
def test_of_a_window_index(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ts.WindowIndex("k", ts.CountWindow(8), **options)


@pytest.mark.parametrize("wrong", ["k", 5, [], [5]])
def test_columns_of_a_question(wrong: Any) -> None:
    window = ts.WindowIndex("k", ts.CountWindow(8))
    window.insert(pa.table({"k": [1, 2]}))
    with pytest.raises(OptionError, match="columns must"):
        window.lookup([1], columns=wrong)
    with pytest.raises(OptionError, match="batch_rows must be a whole number"):
        list(window.rows(0, 9, batch_rows=0))


@pytest.mark.parametrize(("options", "message"), named(OF_A_RELATION_JOIN))
def test_of_a_relation_join(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with (
        ts.Relation.build(tmp_path / "relation", pa.table({"k": [1, 2]}), key="k") as relation,
        pytest.raises(OptionError, match=message),
    ):
        ts.RelationJoin(relation, "l.x = r.k", **options)


@pytest.mark.parametrize(
    "options",
    [{"capacity": 0}, {"capacity": 2.5}, {"capacity": True}, {"columns": 0}, {"slot": "many"}],
)
def test_of_an_index(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="must be"):
        ts.index.create("sorted-runs", **options)


@pytest.mark.parametrize("wrong", [None, 5, "5 minutes"])
def test_a_window_of_another_kind(wrong: Any) -> None:
    for make in (ts.StreamJoin, ts.ParallelJoin):
        with pytest.raises(WindowError, match="window must be a CountWindow"):
            make(BAND, window=wrong)
    with pytest.raises(WindowError, match="window must be a TimeWindow"):
        ts.WindowIndex("k", wrong)


def test_what_is_right_is_read() -> None:
    assert read_count("n", 3) == read_count("n", 3, most=3) == 3
    assert Policy.of("LRU") is Policy.of(Policy.LRU) is Policy.LRU
    assert ts.How.of("Left") is ts.How.LEFT
    assert issubclass(ts.errors.RegistryError, OptionError)
    assert issubclass(OptionError, ValueError)


def test_numbers_of_numpy_are_numbers() -> None:
    assert read_count("threads", np.int64(2)) == 2
    assert type(read_count("threads", np.int64(2))) is int
    assert read_number("split", np.float32(0.5)) == 0.5
    with pytest.raises(OptionError, match="whole number of at least 1; got"):
        read_count("threads", np.bool_(True))
