"""The public surface: a change here is a change for every user."""

from __future__ import annotations

import importlib
import inspect
import sys
from time import monotonic
from typing import Any

import pytest

import thetastream as ts


def signature(function: Any) -> dict[str, tuple[Any, Any]]:
    """Parameters with their kind and default."""
    found = inspect.signature(function).parameters.values()
    return {p.name: (p.kind, p.default) for p in found if p.name != "self"}


EMPTY = inspect.Parameter.empty
PLAIN = inspect.Parameter.POSITIONAL_OR_KEYWORD
NAMED = inspect.Parameter.KEYWORD_ONLY
REST = inspect.Parameter.VAR_KEYWORD


def test_names() -> None:
    assert sorted(ts.__all__) == [
        *("CountWindow", "Explanation", "How", "IndexJoin", "Interval", "Metrics", "ParallelJoin"),
        *(
            "Predicate",
            "Relation",
            "RelationJoin",
            "SessionWindow",
            "Side",
            "StreamJoin",
            "Tactic",
            "ThetastreamError",
            "TimeWindow",
            "Unbounded",
            "WindowIndex",
            "errors",
            "explain",
        ),
        *("index", "join", "join_iter", "left", "right", "tactics"),
    ]
    assert ts.__all__ == sorted(ts.__all__, key=lambda name: (name[0].islower(), name))
    for name in ts.__all__:
        assert getattr(ts, name) is not None


@pytest.mark.parametrize(
    "address",
    [
        *("spark", "testing", "datasets", "index"),
        *(
            "oracle",
            "aggregate_oracle",
            "parallel",
            "cost",
            "ibwj",
            "pandas",
            "polars",
            "functions",
        ),
    ],
)
def test_modules_that_users_import(address: str) -> None:
    module = importlib.import_module(f"thetastream.{address}")
    assert getattr(ts, address) is module
    assert sys.modules[module.__name__] is module, "one module, whatever it is called"
    assert module.__spec__ is not None
    assert module.__spec__.name == module.__name__


def test_stream_join() -> None:
    assert signature(ts.StreamJoin) == {
        "on": (PLAIN, EMPTY),
        "window": (NAMED, EMPTY),
        "how": (NAMED, "inner"),
        "tactic": (NAMED, "auto"),
        "suffix": (NAMED, "_right"),
        "self_join": (NAMED, False),
        "threads": (NAMED, 1),
        "workers": (NAMED, 1),
        "collect": (NAMED, None),
        "collect_time": (NAMED, None),
        "clock": (NAMED, monotonic),
        "batch_rows": (NAMED, 65_536),
        "columns": (NAMED, None),
        "schemas": (NAMED, None),
        "output": (NAMED, "rows"),
        "aggregate": (NAMED, None),
        "residual": (NAMED, None),
    }
    assert signature(ts.StreamJoin.push) == {"left": (PLAIN, None), "right": (PLAIN, None)}
    for name in ("flush", "metrics", "check"):
        assert signature(getattr(ts.StreamJoin, name)) == {}
    assert signature(ts.StreamJoin.explain) == {"verbose": (NAMED, False)}
    public = {name for name in vars(ts.StreamJoin) if not name.startswith("_")}
    assert public == {"push", "flush", "explain", "metrics", "schema", "check"}


def test_finite_join() -> None:
    found = signature(ts.join)
    assert found == {
        **dict.fromkeys(("left", "right", "on"), (PLAIN, EMPTY)),
        "how": (PLAIN, "inner"),
        "suffix": (NAMED, "_right"),
        "columns": (NAMED, None),
        "tactic": (NAMED, "auto"),
        "threads": (NAMED, 1),
        "output": (NAMED, "rows"),
        "aggregate": (NAMED, None),
        "progress": (NAMED, None),
        "residual": (NAMED, None),
    }
    assert signature(ts.join_iter) == {**found, "batch_rows": (NAMED, 65_536)}


def test_dir_shows_the_public_names_only() -> None:
    assert set(ts.__all__) <= set(dir(ts))
    assert not [name for name in dir(ts) if name.startswith("_") or name in ("sys", "annotations")]


def test_relation() -> None:
    assert signature(ts.Relation.build) == {
        "path": (PLAIN, EMPTY),
        "source": (PLAIN, EMPTY),
        "key": (PLAIN, EMPTY),
        "block_bytes": (PLAIN, 8192),
        "fill": (PLAIN, 0.8),
        "unique": (NAMED, None),
        "open_ends": (NAMED, None),
        "keep_empty": (NAMED, False),
        "replace": (NAMED, False),
        "memory": (NAMED, "256 MB"),
        "progress": (NAMED, None),
    }
    assert signature(ts.Relation.open) == {
        "path": (PLAIN, EMPTY),
        "direct": (NAMED, False),
        "device": (NAMED, None),
        "clock": (NAMED, None),
    }
    for name in ("batches", "to_table"):
        assert signature(getattr(ts.Relation, name)) == {"columns": (PLAIN, None)}
    for name in ("snapshot", "refresh", "check", "close"):
        assert signature(getattr(ts.Relation, name)) == {}
    for name in (
        *("path", "schema", "key", "rows", "leaves", "blocks", "block_bytes", "fill", "nbytes"),
        *(
            "index_bytes",
            "version",
            "generation",
            "null_keys",
            "empty_intervals",
            "unique",
            "open_ends",
            "keep_empty",
        ),
    ):
        assert isinstance(getattr(ts.Relation, name), property)


def test_windows() -> None:
    assert signature(ts.CountWindow) == {
        "size": (PLAIN, EMPTY),
        "order": (PLAIN, None),
        "slide": (PLAIN, None),
        "unknown": (REST, EMPTY),
    }
    assert signature(ts.TimeWindow) == {
        "size": (PLAIN, EMPTY),
        "time": (PLAIN, None),
        "lateness": (PLAIN, 0),
        "slide": (PLAIN, None),
        "unknown": (REST, EMPTY),
    }


def test_indexes() -> None:
    assert signature(ts.index.create) == {
        "name": (PLAIN, EMPTY),
        "capacity": (PLAIN, 1 << 20),
        "parameters": (REST, EMPTY),
    }
    assert ts.index.names() == [
        "b+tree", "b-tree", "bi-sort", "bi-sort-opencl", "burst-trie", "chained", "csb+tree",
        "css-tree", "im-tree", "incremental", "llat", "nested-loop", "optimistic-tree",
        "per-term", "pim-tree", "po-join", "ptwi", "radix-trie", "rap-table", "round-robin",
        "sorted-runs", "split-join", "spo-join", "subwindows", "wib-tree", "zoned-runs",
    ]  # fmt: skip
    index = ts.index.create("sorted-runs")
    assert index.parameters["capacity"] == 1 << 20
    assert list(signature(type(index).insert)) == ["keys", "ids"]
    assert signature(type(index).probe) == {
        "lows": (PLAIN, EMPTY),
        "highs": (PLAIN, EMPTY),
        "limit": (NAMED, 65_536),
    }
    assert list(signature(type(index).expire)) == ["before"]
    for name in ("nbytes", "parameters", "statistics"):
        assert isinstance(getattr(type(index), name), property)


def test_parallel_join() -> None:
    found = signature(ts.ParallelJoin)
    assert found["structure"] == (NAMED, "pim-tree")
    assert found["tactic"] == found["parameters"] == (NAMED, None)
    assert signature(ts.ParallelJoin.push)["arrival"] == (PLAIN, None)


def test_window_index() -> None:
    found = signature(ts.WindowIndex)
    assert list(found) == ["key", "window", "index", "subwindows", "schema", "options"]
    assert found["index"] == (PLAIN, "auto")


def test_tactics() -> None:
    assert signature(ts.Tactic) == {
        "name": (inspect.Parameter.POSITIONAL_ONLY, EMPTY),
        "parameters": (REST, EMPTY),
    }
    assert ts.tactics() == [
        *("auto", "ordered", "ibwj", "panjoin", "spo-join", "hash", "cells", "nested-loop"),
    ]


def test_modes() -> None:
    assert [mode.value for mode in ts.How] == ["inner", "left", "right", "full", "semi", "anti"]
    assert [side.value for side in ts.Side] == ["left", "right"]


@pytest.mark.parametrize(
    "field",
    [
        *(
            "pushes",
            "rows",
            "matches",
            "output_rows",
            "dropped",
            "null_keys",
            "nan_keys",
            "empty_intervals",
        ),
        *("candidates", "window_rows", "window_bytes", "index_bytes", "payload_bytes"),
        *("peak_bytes", "runs", "merges", "switches", "sides", "keys_seconds", "sort_seconds"),
        *("probe_seconds", "insert_seconds", "merge_seconds", "expire_seconds", "gather_seconds"),
    ],
)
def test_metrics(field: str) -> None:
    metrics = ts.StreamJoin("l.x = r.x", window=ts.CountWindow(1)).metrics()
    assert metrics[field] == getattr(metrics, field)
    assert field in metrics.as_dict()


def test_the_version() -> None:
    assert ts.__version__.count(".") == 2


def test_relation_join() -> None:
    found = signature(ts.RelationJoin)
    assert list(found)[:5] == ["relation", "on", "memory", "deadline", "how"]
    assert [found[name] for name in ("memory", "deadline", "how")] == [
        (PLAIN, "64 MB"),
        (PLAIN, None),
        (PLAIN, "inner"),
    ]
    for name in ("flush", "poll", "step", "reset", "close", "metrics", "check"):
        assert signature(getattr(ts.RelationJoin, name)) == {}
    assert signature(ts.RelationJoin.explain) == {"verbose": (NAMED, False)}
    for name in ("push", "offer"):
        assert signature(getattr(ts.RelationJoin, name)) == {"rows": (PLAIN, EMPTY)}
    public = {name for name in vars(ts.RelationJoin) if not name.startswith("_")}
    assert public == {
        *("push", "offer", "step", "poll", "flush", "reset", "close"),
        *("due", "schema", "explain", "metrics", "check"),
    }
