"""Unique keys: what a build refuses, and changes of single rows against a plain dictionary."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

import thetastream as ts
from thetastream.errors import OptionError, RelationError, SchemaError

from ...scale import scaled

TARIFFS = pa.table(
    {
        "region": ["EU", "US", "CH", "EU", None],
        "lo": [1, 1, 1, 50, 50],
        "hi": [49, 99, 99, 99, 99],
        "price": [1.0, 2.0, 3.0, 4.0, 5.0],
    }
)
UNIQUE = ("region", "lo")


def tariffs(path: Path, **more: Any) -> ts.Relation:
    return ts.Relation.build(path / "t.rel", TARIFFS, ("lo", "hi"), **more)


def one(region: str | None, lo: int, price: float) -> pa.Table:
    columns = {"region": [region], "lo": [lo], "hi": [99], "price": [price]}
    return pa.table(columns, TARIFFS.schema)


def prices(relation: ts.Relation) -> dict[tuple[str | None, int], float]:
    return {(row["region"], row["lo"]): row["price"] for row in relation.to_table().to_pylist()}


# --- Changes of single rows ---------------------------------------------------------------------


def test_an_update_leaves_other_rows_of_the_key_alone(tmp_path: Path) -> None:
    with tariffs(tmp_path, unique=UNIQUE) as relation:
        assert relation.unique == UNIQUE
        before = prices(relation)
        counts = relation.update(one("EU", 1, 9.0))
        assert (counts.inserted, counts.replaced, counts.removed) == (0, 1, 0)
        assert prices(relation) == before | {("EU", 1): 9.0}
        counts = relation.update(one("FR", 1, 8.0), upsert=True)
        assert (counts.inserted, counts.replaced, counts.removed) == (1, 0, 0)
        assert relation.delete(one("US", 1, 0.0)).removed == 1
        del before["US", 1]
        assert prices(relation) == before | {("EU", 1): 9.0, ("FR", 1): 8.0}
        relation.check()


def test_without_a_unique_key_an_update_removes_nothing_unasked(tmp_path: Path) -> None:
    with tariffs(tmp_path) as relation:
        before = prices(relation)
        says = "2 would be removed .* 1 rows were passed for 3 .*lo = 1.*unique=.*replace_key=True"
        with pytest.raises(RelationError, match=says):
            relation.update(one("EU", 1, 9.0))
        assert (prices(relation), relation.version) == (before, 1)
        counts = relation.update(one("EU", 1, 9.0), replace_key=True)
        assert (counts.inserted, counts.replaced, counts.removed) == (0, 1, 2)
        assert (int(counts), repr(counts)) == (
            1,
            "ChangeCounts(inserted=0, replaced=1, removed=2)",
        )
        assert prices(relation) == {("EU", 1): 9.0, ("EU", 50): 4.0, (None, 50): 5.0}


def test_null_is_one_value_of_a_unique_key(tmp_path: Path) -> None:
    with tariffs(tmp_path, unique=UNIQUE) as relation:
        relation.update(one(None, 50, 7.0))
        assert prices(relation)[(None, 50)] == 7.0
        assert prices(relation)[("EU", 50)] == 4.0
        with pytest.raises(RelationError, match="region = None, lo = 50 already"):
            relation.insert(one(None, 50, 7.0))


@pytest.mark.parametrize("change", ["insert", "update"])
def test_rows_of_a_change_must_be_unique_too(tmp_path: Path, change: str) -> None:
    with tariffs(tmp_path, unique=UNIQUE) as relation:
        twice = pa.concat_tables([one("EU", 1, 9.0), one("EU", 1, 8.0), one("US", 1, 1.0)])
        says = r"1 of its values more than once: region = 'EU', lo = 1 \(2 times\); nothing was"
        with pytest.raises(RelationError, match=says):
            getattr(relation, change)(twice)
        assert relation.version == 1


def test_a_row_that_is_there_is_not_inserted_again(tmp_path: Path) -> None:
    with tariffs(tmp_path, unique=UNIQUE) as relation:
        both = pa.concat_tables([one("EU", 1, 9.0), one("FR", 1, 9.0)])
        with pytest.raises(RelationError, match=r"region = 'EU', lo = 1 already.*upsert=True"):
            relation.insert(both)
        assert (relation.version, relation.rows) == (1, 5)
        with pytest.raises(RelationError, match="no rows with region = 'FR', lo = 1; nothing"):
            relation.update(both)
        assert relation.version == 1


def test_keys_to_delete(tmp_path: Path) -> None:
    with tariffs(tmp_path, unique=UNIQUE) as relation:
        assert relation.delete(pa.table({"lo": [50]})).removed == 2  # by the key it is sorted by
        assert relation.delete([1], where="r.region = 'US'").removed == 1
        assert set(prices(relation)) == {("EU", 1), ("CH", 1)}
        with pytest.raises(SchemaError, match="no key column 'lo'"):
            relation.delete(pa.table({"region": ["EU"]}))


def test_it_stays_unique_after_reopening_folding_and_compacting(tmp_path: Path) -> None:
    relation = tariffs(tmp_path, unique=UNIQUE)
    relation.insert(one("FR", 1, 9.0))
    assert relation.fold()
    relation.compact()
    relation.close()
    with ts.Relation.open(tmp_path / "t.rel") as relation:
        assert relation.unique == UNIQUE
        with pytest.raises(RelationError, match="already"):
            relation.insert(one("FR", 1, 9.0))


# --- Building -----------------------------------------------------------------------------------


def test_a_build_says_which_values_are_not_unique_and_how_often(tmp_path: Path) -> None:
    table = pa.concat_tables([TARIFFS, one("EU", 1, 9.0), one("EU", 1, 9.0), one(None, 50, 1.0)])
    says = (
        r"unique=\('region', 'lo'\) is not unique: 2 values are in 5 rows: "
        r"region = 'EU', lo = 1 \(3 times\); region = None, lo = 50 \(2 times\)"
    )
    with pytest.raises(RelationError, match=says):
        ts.Relation.build(tmp_path / "t.rel", table, ("lo", "hi"), unique=UNIQUE)
    assert os.listdir(tmp_path) == []


@settings(max_examples=scaled(40))
@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ab"), st.integers(0, 1))),
    st.sampled_from(["64 KiB", "256 MB"]),
    st.sampled_from([("k",), ("k", "s"), ("s", "k", "n")]),
    st.sampled_from([0, 3000]),
)
def test_a_build_finds_every_repeated_value(
    rows: list[tuple[int, str, int]], memory: str, unique: tuple[str, ...], pad: int
) -> None:
    kinds = pa.schema({"k": pa.int64(), "s": pa.string(), "n": pa.int8(), "pad": pa.string()})
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    table = pa.table([*columns, ["x" * pad] * len(rows)], schema=kinds)
    places = [kinds.names.index(name) for name in unique]
    counts = Counter(tuple(row[at] for at in places) for row in rows)
    again = {value: count for value, count in counts.items() if count > 1}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.rel"
        if not again:
            ts.Relation.build(path, table, "k", 4096, memory=memory, unique=unique).close()
            return
        with pytest.raises(RelationError, match="is not unique") as caught:
            ts.Relation.build(path, table, "k", 4096, memory=memory, unique=unique)
    text = str(caught.value)
    assert f"{len(again)} values are in {sum(again.values())} rows" in text
    shown = 0
    for value, count in again.items():
        pairs = ", ".join(f"{n} = {v!r}" for n, v in zip(unique, value, strict=True))
        shown += f"{pairs} ({count} times)" in text
    assert shown == min(len(again), 5)
    assert ("others" in text) == (len(again) > 5)


@pytest.mark.parametrize(
    ("unique", "error", "says"),
    [
        ("region", OptionError, r"add 'lo' to unique=\('region'\)"),
        (("lo", "lo"), OptionError, "twice"),
        ((), OptionError, "column name, or several"),
        ((1,), OptionError, "column name, or several"),
        (("lo", "regoin"), SchemaError, "no column 'regoin' for unique.*Did you mean 'region'"),
    ],
)
def test_columns_that_cannot_be_unique(
    tmp_path: Path, unique: Any, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        tariffs(tmp_path, unique=unique)
    assert os.listdir(tmp_path) == []


# --- Any order of changes -----------------------------------------------------------------------

Row = tuple[str | None, int, int, str]
SCHEMA = pa.schema({"u": pa.string(), "k": pa.int64(), "id": pa.int64(), "pad": pa.string()})


def of(rows: list[Row]) -> pa.Table:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
    return pa.table(columns, schema=SCHEMA)


class UniqueChanges(RuleBasedStateMachine):
    """Random changes of a relation that is unique by (u, k) and sorted by k."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.model: dict[tuple[str | None, int], Row] = {}
        self.made = 0

    def teardown(self) -> None:
        self.relation.close()
        shutil.rmtree(self.folder)

    keys = st.lists(
        st.tuples(st.sampled_from(["a", "b", "c", None]), st.integers(0, 5)), max_size=8
    )
    sizes = st.sampled_from([0, 900, 5000])

    def rows(self, keys: list[tuple[str | None, int]], size: int) -> list[Row]:
        self.made += len(keys)
        return [(u, k, self.made - at, "x" * size) for at, (u, k) in enumerate(keys)]

    def refused(self, change: str, *arguments: Any) -> None:
        version = self.relation.version
        with pytest.raises(RelationError, match="nothing was changed"):
            getattr(self.relation, change)(*arguments)
        assert self.relation.version == version

    @initialize(keys=keys, size=sizes)
    def build(self, keys: list[tuple[str | None, int]], size: int) -> None:
        fresh = self.rows(list(dict.fromkeys(keys)), size)
        path = Path(self.folder) / "r.rel"
        self.relation = ts.Relation.build(path, of(fresh), "k", 4096, unique=("u", "k"))
        self.model = {row[:2]: row for row in fresh}

    @rule(keys=keys, size=sizes)
    def insert(self, keys: list[tuple[str | None, int]], size: int) -> None:
        fresh = self.rows(keys, size)
        if len(set(keys)) < len(keys) or set(keys) & set(self.model):
            self.refused("insert", of(fresh))
            return
        assert self.relation.insert(of(fresh)).inserted == len(fresh)
        self.model |= {row[:2]: row for row in fresh}

    @rule(keys=keys, size=sizes, upsert=st.booleans())
    def update(self, keys: list[tuple[str | None, int]], size: int, upsert: bool) -> None:
        fresh = self.rows(keys, size)
        absent = set(keys) - set(self.model)
        if len(set(keys)) < len(keys) or (absent and not upsert):
            self.refused("update", of(fresh), upsert)
            return
        counts = self.relation.update(of(fresh), upsert)
        assert (counts.inserted, counts.removed) == (len(absent), 0)
        assert counts.replaced == len(keys) - len(absent)
        self.model |= {row[:2]: row for row in fresh}

    @rule(keys=keys, size=sizes)
    def replace_keys(self, keys: list[tuple[str | None, int]], size: int) -> None:
        fresh = self.rows(list(dict.fromkeys(keys)), size)
        wanted = {row[1] for row in fresh}
        gone = [key for key in self.model if key[1] in wanted]
        counts = self.relation.update(of(fresh), upsert=True, replace_key=True)
        assert counts.replaced + counts.removed == len(gone)
        assert counts.inserted + counts.replaced == len(fresh)
        for key in gone:
            del self.model[key]
        self.model |= {row[:2]: row for row in fresh}

    @rule(keys=keys)
    def delete(self, keys: list[tuple[str | None, int]]) -> None:
        gone = set(keys) & set(self.model)
        assert self.relation.delete(of(self.rows(keys, 0))).removed == len(gone)
        for key in gone:
            del self.model[key]

    @rule(again=st.booleans())
    def fold_and_reopen(self, again: bool) -> None:
        assert self.relation.fold()
        if again:
            path = self.relation.path
            self.relation.close()
            self.relation = ts.Relation.open(path)

    @invariant()
    def is_whole(self) -> None:
        if not hasattr(self, "relation"):
            return
        self.relation.check()
        found = list(zip(*self.relation.to_table().to_pydict().values(), strict=True))
        assert Counter(found) == Counter(self.model.values())


def test_random_changes_by_unique_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda file: None)  # no crash here; a sync takes long
    run_state_machine_as_test(
        UniqueChanges,
        settings=settings(max_examples=scaled(15), stateful_step_count=15, deadline=None),
    )
