"""Updates against a plain list of rows: splits, duplicates, folds, crashes, bad input."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from thetastream import errors
from thetastream.relation.files.scan import scan
from thetastream.relation.files.snapshot import Snapshot
from thetastream.relation.store import Relation

from ...scale import scaled
from ..failures import failing
from .update_cases import PAD, keys_of, numbered

Row = tuple[Any, ...]
SIZES = [0, 0, 300, 1300, 3900, 9000]  # of 4,096 bytes; the last one takes three blocks


class Kind:
    """A kind of relation, of rows that are ``(key, …, id, pad)``."""

    def __init__(
        self, key: Any, schema: pa.Schema, value: Callable[[int], tuple[Any, ...]]
    ) -> None:
        self.key, self.schema, self.value = key, schema, value

    def table(self, rows: list[Row]) -> pa.Table:
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(self.schema)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, self.schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=self.schema)


def schema(*key: tuple[str, pa.DataType], pad: pa.DataType | None = None) -> pa.Schema:
    """Key columns, a number per row, and padding."""
    return pa.schema([*key, ("id", pa.int64()), ("pad", pad or pa.string())])


NUMBERS = Kind("k", schema(("k", pa.int32())), lambda i: (i,))
TEXTS = Kind("k", schema(("k", pa.string())), lambda i: (f"key {i}",))
INTERVALS = Kind(
    ("lo", "hi"), schema(("lo", pa.int64()), ("hi", pa.int64())), lambda i: (i, (i * 7) % 11)
)
WORDS = pa.dictionary(pa.int8(), pa.string())
# Types that Arrow cannot put in order.
ODD = Kind("k", schema(("k", WORDS), pad=pa.string_view()), lambda i: (f"key {i}",))


class Updates(RuleBasedStateMachine):
    """Random changes of a relation and of a list of rows."""

    kind = NUMBERS

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.path = Path(self.folder) / "r.rel"
        self.model: list[Row] = []
        self.snapshots: list[tuple[Snapshot, list[Row]]] = []
        self.made = 0
        self.version = 0

    def teardown(self) -> None:
        for snapshot, _ in self.snapshots:
            snapshot.close()
        self.relation.close()
        shutil.rmtree(self.folder)

    def rows(self, keys: list[int], sizes: list[int]) -> list[Row]:
        made = []
        for key, size in zip(keys, sizes, strict=False):
            self.made += 1
            made.append((*self.kind.value(key), self.made, str(key) * size))
        return made

    many = st.lists(st.integers(0, 9), max_size=8)
    sizes = st.lists(st.sampled_from(SIZES), min_size=8, max_size=8)

    @initialize(keys=many, sizes=sizes, fill=st.sampled_from([0.3, 0.8, 1.0]))
    def build(self, keys: list[int], sizes: list[int], fill: float) -> None:
        self.model = self.rows(keys, sizes)
        table = self.kind.table(self.model)
        self.relation = Relation.build(self.path, table, self.kind.key, 4096, fill, keep_empty=True)
        self.version = self.relation.version

    def changed(self, count: int = 1) -> None:
        self.version += count

    @rule(keys=many, sizes=sizes)
    def insert(self, keys: list[int], sizes: list[int]) -> None:
        fresh = self.rows(keys, sizes)
        assert self.relation.insert(self.kind.table(fresh)) == len(fresh)
        self.model += fresh
        self.changed(bool(fresh))

    @rule(keys=many)
    def delete(self, keys: list[int]) -> None:
        doomed = {self.kind.value(key)[0] for key in keys}
        left = [row for row in self.model if row[0] not in doomed]
        values = pa.array(sorted(doomed), self.relation.schema.field(self.relation.key[0]).type)
        assert self.relation.delete(values) == len(self.model) - len(left)
        self.changed(len(left) < len(self.model))
        self.model = left

    @rule(keys=st.none() | many, rest=st.integers(0, 2))
    def delete_some(self, keys: list[int] | None, rest: int) -> None:
        among = None if keys is None else {self.kind.value(key)[0] for key in keys}
        left = [
            row
            for row in self.model
            if row[-2] % 3 != rest or not (among is None or row[0] in among)
        ]
        values = None if among is None else sorted(among)
        gone = self.relation.delete(values, where=f"r.id % 3 = {rest}")
        assert gone == len(self.model) - len(left)
        self.changed(gone > 0)
        self.model = left

    @rule(keys=many, sizes=sizes, upsert=st.booleans(), replace=st.booleans())
    def update(self, keys: list[int], sizes: list[int], upsert: bool, replace: bool) -> None:
        fresh = self.rows(keys, sizes)
        table = self.kind.table(fresh)
        there = Counter(row[0] for row in self.model)
        wanted = Counter(row[0] for row in fresh)
        removed = sum(max(there[key] - wanted[key], 0) for key in wanted)
        replaced = sum(min(there[key], wanted[key]) for key in wanted)
        if (removed and not replace) or (not upsert and not set(wanted) <= set(there)):
            with pytest.raises(errors.RelationError, match="nothing was changed"):
                self.relation.update(table, upsert, replace)
            return
        counts = self.relation.update(table, upsert, replace)
        assert counts == len(fresh)
        assert (counts.replaced, counts.removed) == (replaced, removed)
        assert counts.inserted == len(fresh) - replaced
        self.model = [row for row in self.model if row[0] not in wanted] + fresh
        self.changed(bool(fresh))

    @rule(keys=many, more=many, sizes=sizes, fails=st.booleans())
    def several(self, keys: list[int], more: list[int], sizes: list[int], fails: bool) -> None:
        first, second = self.rows(keys, sizes), self.rows(more, sizes)
        doomed = {row[0] for row in second}
        after = [row for row in self.model + first if row[0] not in doomed] + second
        try:
            with self.relation.transaction() as changes:
                changes.insert(self.kind.table(first))
                changes.delete(sorted(doomed))
                changes.insert(self.kind.table(second))
                assert changes.rows == len(after)
                if fails:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            return
        self.changed(bool(first or second))
        self.model = after

    @rule()
    def fold(self) -> None:
        assert self.relation.fold() == (not self.snapshots or not self.relation.journal_bytes)

    @rule()
    def compact(self) -> None:
        self.relation.compact()
        self.changed()
        assert self.relation.leaves == 0 or not self.relation._state.fences.moved

    @rule()
    def reopen(self) -> None:
        self.relation.close()
        self.relation = Relation.open(self.path)

    @rule()
    def look_from_elsewhere(self) -> None:
        with Relation.open(self.path) as other:
            assert other.version == self.version
            self.compare(other.to_table(), self.model)

    @precondition(lambda self: len(self.snapshots) < 3)
    @rule()
    def pin(self) -> None:
        self.snapshots.append((self.relation.snapshot(), list(self.model)))

    @precondition(lambda self: self.snapshots)
    @rule(which=st.integers(0, 2))
    def unpin(self, which: int) -> None:
        self.snapshots.pop(which % len(self.snapshots))[0].close()

    def compare(self, found: pa.Table, model: list[Row]) -> None:
        assert found.schema.equals(self.kind.schema)
        rows = list(zip(*found.to_pydict().values(), strict=True))
        assert Counter(rows) == Counter(model)
        if self.kind in (NUMBERS, INTERVALS):  # rows of one key stay in the order they came in
            assert rows == sorted(model, key=lambda row: row[0])

    @invariant()
    def is_whole(self) -> None:
        if not self.version:
            return
        self.relation.check()
        assert (self.relation.rows, self.relation.version) == (len(self.model), self.version)
        if self.kind is INTERVALS:
            assert self.relation.empty_intervals == sum(row[0] > row[1] for row in self.model)
        self.compare(self.relation.to_table(), self.model)
        for snapshot, model in self.snapshots:
            batches = scan(snapshot, self.kind.schema.names)
            self.compare(pa.Table.from_batches(batches, schema=self.kind.schema), model)


@pytest.mark.parametrize(
    "kind", [NUMBERS, TEXTS, INTERVALS, ODD], ids=["numbers", "texts", "intervals", "odd"]
)
def test_random_changes(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda file: None)  # no crash here; a sync takes long
    monkeypatch.setattr("thetastream.relation.change.update._GROUP", 2)
    machine = type("Machine", (Updates,), {"kind": kind})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=scaled(12), stateful_step_count=15, deadline=None)
    )


# --- Small cases --------------------------------------------------------------------------------


def test_free_space_comes_first_then_a_split(relation: Relation) -> None:
    leaves, blocks = relation.leaves, relation.blocks
    relation.insert(numbered([5]))
    assert (relation.leaves, relation.blocks) == (leaves, blocks)  # two rows at 0.7, three fit
    relation.insert(numbered([5]))
    assert (relation.leaves, relation.blocks) == (leaves + 1, blocks + 1)
    assert keys_of(relation) == sorted([*range(0, 40, 2), 5, 5])


def test_a_leaf_without_rows_frees_its_block_for_the_next_split(relation: Relation) -> None:
    leaves, blocks = relation.leaves, relation.blocks
    relation.delete([20, 22])
    assert (relation.leaves, relation.blocks) == (leaves - 1, blocks)
    relation.insert(numbered([1, 1, 1]))
    assert relation.leaves >= leaves
    assert keys_of(relation) == sorted([*range(0, 20, 2), *range(24, 40, 2), 1, 1, 1])
    assert relation.blocks <= blocks + 1


def test_a_split_is_half_and_half_by_bytes(tmp_path: Path) -> None:
    sizes = [3000, 100, 100, 100, 100, 100]
    table = pa.table({"k": range(6), "pad": ["x" * size for size in sizes]})
    with Relation.build(tmp_path / "r.rel", table, "k", 4096, 1.0) as relation:
        assert relation.leaves == 1
        relation.insert(pa.table({"k": [2], "pad": ["y" * 700]}))
        with relation.snapshot() as snapshot:
            assert snapshot.fences.firsts.tolist() == [0, 1]


def test_rows_in_ascending_order_leave_full_leaves_behind(relation: Relation) -> None:
    for key in range(40, 100):
        relation.insert(numbered([key]))
    assert keys_of(relation) == [*range(0, 40, 2), *range(40, 100)]
    assert relation.leaves == 40  # two rows each, at a fill of 0.7, as it was built
    relation.insert(numbered([1, 1]))
    with relation.snapshot() as snapshot:
        assert snapshot.fences.firsts.tolist()[:3] == [0, 1, 4]


def test_one_key_over_many_leaves(relation: Relation) -> None:
    relation.insert(numbered([20] * 30))
    relation.insert(numbered([20] * 7))
    assert keys_of(relation) == sorted([*range(0, 40, 2), *[20] * 37])
    assert relation.delete(pa.array([20])) == 38
    assert keys_of(relation) == [*range(0, 20, 2), *range(22, 40, 2)]


def test_a_row_that_grows_over_its_block_and_shrinks_again(relation: Relation) -> None:
    for size in (9000, 30, 20_000, 4000, 0):
        table = pa.table({"k": [10], "pad": ["x" * size]})
        assert relation.update(table) == 1
        assert keys_of(relation) == [*range(0, 40, 2)]
        assert relation.to_table().column("pad").to_pylist()[5] == "x" * size


def test_the_empty_relation_takes_rows(tmp_path: Path) -> None:
    with Relation.build(tmp_path / "r.rel", numbered([]), "k", 4096) as relation:
        assert relation.delete([3]) == 0
        relation.insert(numbered(range(20)))
        assert keys_of(relation) == list(range(20))
        assert relation.delete(where="true") == 20
        assert (keys_of(relation), relation.leaves) == ([], 0)
        relation.insert(numbered([4]))
        assert keys_of(relation) == [4]
        assert relation.fold()
        assert keys_of(relation) == [4]


def test_rows_without_a_key_are_left_out_and_counted(tmp_path: Path) -> None:
    table = pa.table({"lo": [1, None], "hi": [2, 3]})
    path = tmp_path / "r.rel"
    with Relation.build(path, table, ("lo", "hi"), 4096, open_ends=False) as relation:
        assert relation.insert(pa.table({"lo": [5, None, 6], "hi": [5, 1, None]})) == 1
        assert (relation.rows, relation.null_keys, relation.version) == (2, 3, 2)
        nothing = pa.table({"lo": pa.nulls(2, pa.int64()), "hi": [1, 1]})
        assert relation.insert(nothing) == 0
        assert (relation.rows, relation.null_keys, relation.version) == (2, 5, 3)
        assert relation.delete(pa.array([None, 5], pa.int64())) == 1
    with Relation.open(tmp_path / "r.rel") as relation:
        assert (relation.rows, relation.null_keys) == (1, 5)


def test_what_changes_nothing_makes_no_version(relation: Relation) -> None:
    relation.insert(numbered([]))
    relation.delete([1, 3, 5])
    relation.update(numbered([]))
    with relation.transaction():
        pass
    assert (relation.version, relation.journal_bytes) == (1, 0)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0.5, -0.0, float("nan"), float("inf")], pa.float64()),
        ([1, 2**64 - 1, 2**63], pa.uint64()),
        (["1.10", "2.20", "-3.30"], pa.decimal128(9, 2)),
        ([0, 86_400, 10**9], pa.timestamp("s", "UTC")),
        ([b"", b"ab", b"abc"], pa.binary()),
        ([True, False], pa.bool_()),
    ],
)
def test_keys_of_other_types(tmp_path: Path, values: list[Any], kind: pa.DataType) -> None:
    array = pa.array(values, pa.string()).cast(kind) if pa.types.is_decimal(kind) else None
    array = pa.array(values, kind) if array is None else array
    table = pa.table({"k": array, "i": range(len(array))})
    with Relation.build(tmp_path / "r.rel", table.slice(0, 1), "k", 4096) as relation:
        relation.insert(table.slice(1))
        relation.update(table.set_column(1, "i", pa.array([7] * len(array))))
        relation.check()
        assert relation.to_table(["i"])["i"].to_pylist() == [7] * len(array)
        assert relation.delete(array.slice(1)) == len(array) - 1
        assert relation.to_table()["k"].to_pylist() == array.slice(0, 1).to_pylist()


def test_strings_of_the_same_hash_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def all_the_same(data: Any, offsets: Any, hashes: Any) -> None:
        hashes[:] = 5

    monkeypatch.setattr("thetastream.data.batch.hash_bytes", all_the_same)
    table = pa.table({"k": ["a", "b", "c", "a"], "i": range(4)})
    with Relation.build(tmp_path / "r.rel", table, "k", 4096) as relation:
        assert relation.delete(["a", "x"]) == 2
        relation.update(pa.table({"k": ["b"], "i": [9]}))
        assert sorted(relation.to_table().to_pydict()["i"]) == [2, 9]
        with pytest.raises(errors.RelationError, match="no rows with k = 'd';"):
            relation.update(pa.table({"k": ["c", "d"], "i": [1, 1]}))
        assert sorted(relation.to_table().to_pydict()["i"]) == [2, 9]


# --- Bad input ----------------------------------------------------------------------------------

BAD: list[tuple[Callable[[Relation], Any], type[Exception], str]] = [
    (lambda r: r.insert(pa.table({"k": [1]})), errors.SchemaError, "lack the column 'pad'"),
    (
        lambda r: r.insert(numbered([1]).append_column("x", pa.array([1]))),
        errors.SchemaError,
        "'x', which the relation does not have",
    ),
    (
        lambda r: r.insert(pa.table({"k": pa.array([1], pa.int32()), "pad": [""]})),
        errors.SchemaError,
        "'k' of the rows has type int32; the relation has it as int64",
    ),
    (lambda r: r.insert({"k": [1]}), errors.SchemaError, "lack the column 'pad'"),
    (lambda r: r.insert([{"k": "x", "pad": ""}]), errors.SchemaError, "column 'k' of the relation"),
    (lambda r: r.insert(5), errors.SchemaError, "expected rows as a pyarrow table.* got int"),
    (
        lambda r: r.update(numbered([2, *range(1, 20, 2)])),
        errors.RelationError,
        r"no rows with k = 1, 3, 5, 7, 9 and 5 others; nothing was changed.*upsert=True",
    ),
    (lambda r: r.delete(), errors.RelationError, "keys, a condition where="),
    (lambda r: r.delete(["x"]), errors.SchemaError, "expected keys of type int64"),
    (lambda r: r.delete(pa.array([1.5])), errors.SchemaError, "expected keys of type int64"),
    (lambda r: r.delete(pa.table({"kk": [1]})), errors.SchemaError, "no key column 'k'"),
    (lambda r: r.delete([1], where="l.k = 1"), errors.PredicateError, "left side"),
    (lambda r: r.delete([1], where="r.z = 1"), errors.SchemaError, "no column 'z'"),
    (lambda r: r.delete([1], where="r.k + 1"), errors.SchemaError, "expected a condition"),
    (lambda r: r.delete([1], where="r.k ="), errors.PredicateError, "r.k ="),
]


@pytest.mark.parametrize(("change", "error", "says"), BAD)
def test_bad_input_is_refused_and_changes_nothing(
    relation: Relation, change: Callable[[Relation], Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        change(relation)
    assert (relation.version, relation.journal_bytes) == (1, 0)
    relation.insert(numbered([1]))
    assert relation.rows == 21


def test_a_call_that_fails_leaves_the_rest_of_its_transaction(relation: Relation) -> None:
    with relation.transaction() as changes:
        changes.insert(numbered([1]))
        with pytest.raises(errors.RelationError, match="no rows with k = 3"):
            changes.update(numbered([2, 3], "new"))
        changes.delete([0])
    assert keys_of(relation) == [1, *range(2, 40, 2)]
    assert relation.to_table(["pad"])["pad"].to_pylist() == [PAD] * 20
    with pytest.raises(errors.StateError, match="transaction has ended"):
        changes.insert(numbered([1]))


def test_a_damaged_block_is_not_written_on(relation: Relation) -> None:
    blocks = relation.path / f"blocks-{relation.generation}"
    data = bytearray(blocks.read_bytes())
    data[4096 * 3 + 2000] ^= 1
    blocks.write_bytes(data)
    with pytest.raises(errors.RelationError, match="block 3 .* damaged.*nothing was changed"):
        relation.insert(numbered(range(0, 40, 2)))
    assert relation.version == 1
    relation.insert(numbered([39]))
    assert relation.version == 2


def test_a_full_disk_changes_nothing(relation: Relation, monkeypatch: pytest.MonkeyPatch) -> None:
    full = failing(errno.ENOSPC)
    before = keys_of(relation)
    for name in ("posix_fallocate", "pwrite"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, full)
            with pytest.raises(errors.RelationError, match="No space left.*nothing was changed"):
                relation.insert(numbered([1] * 30))
        assert (keys_of(relation), relation.version) == (before, 1)
    relation.insert(numbered([1] * 30))
    assert keys_of(relation) == sorted([*before, *[1] * 30])
    with monkeypatch.context() as patch:  # a fold that fails says so, and may be done later
        patch.setattr(os, "pwrite", full)
        with pytest.raises(errors.RelationError, match="the disk is full. Nothing was lost"):
            relation.fold()
    assert keys_of(relation) == sorted([*before, *[1] * 30])
    assert relation.fold()
    assert keys_of(relation) == sorted([*before, *[1] * 30])


def test_a_file_system_that_cannot_reserve_room(
    relation: Relation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "posix_fallocate", failing(errno.EOPNOTSUPP))
    relation.insert(numbered([1] * 30))
    assert len(keys_of(relation)) == 50


def test_a_large_journal_is_folded_after_a_transaction(
    relation: Relation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("thetastream.relation.store.FOLD_BYTES", 20_000)
    sizes = []
    for key in range(12):
        relation.insert(numbered([key]))
        sizes.append(relation.journal_bytes)
    assert 0 in sizes
    assert max(sizes) < 20_000
    with relation.snapshot():
        for key in range(12):
            relation.insert(numbered([key]))
        assert relation.journal_bytes > 20_000
    assert len(keys_of(relation)) == 44


def test_a_rebuilt_relation_has_a_later_version(relation: Relation) -> None:
    relation.insert(numbered([1]))
    relation.insert(numbered([1]))
    Relation.build(relation.path, numbered([5]), "k", 4096, replace=True).close()
    assert relation.refresh()
    assert (relation.version, keys_of(relation)) == (4, [5])
