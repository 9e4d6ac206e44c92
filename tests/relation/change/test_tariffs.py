"""Tables as users have them: unique rows, intervals within a region, and everything bad in them.

Random changes are compared with a plain dictionary. Whatever is bad is refused with its number,
and then nothing has changed; a join finds what the dictionary has at every step.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

import thetastream as ts
from thetastream.errors import DataError, RelationError

from ...scale import scaled

KEY, UNIQUE = ("region", ("lo", "hi")), ("region", "lo")
ON = "l.region = r.region AND l.t BETWEEN r.lo AND r.hi"
Row = tuple[str, Any, Any, int, str]


def bad_text() -> pa.Array:
    """Two strings, the second of which is not UTF-8."""
    offsets = pa.py_buffer(np.array([0, 2, 4], np.int32))
    return pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"EU\xff\xfe")])


class Ends:
    """What the ends of intervals are: from numbers to values and back."""

    def __init__(self, kind: pa.DataType, value: Callable[[int], Any], *, opens: bool) -> None:
        self.kind, self.value, self.opens = kind, value, opens

    def of(self, number: int | None) -> Any:
        return None if number is None else self.value(number)

    def table(self, rows: list[Row]) -> pa.Table:
        kinds = [pa.string(), self.kind, self.kind, pa.int64(), pa.string()]
        names = ["region", "lo", "hi", "price", "pad"]
        columns = zip(*rows, strict=True) if rows else [[]] * len(names)
        arrays = [pa.array(list(c), kind) for c, kind in zip(columns, kinds, strict=True)]
        return pa.table(arrays, names=names)


NUMBERS = Ends(pa.int64(), lambda number: number, opens=True)
ADDRESSES = Ends(pa.binary(), lambda number: number.to_bytes(4, "big"), opens=False)


class Tariffs(RuleBasedStateMachine):
    """Random changes of tariffs that are unique by region and start."""

    ends = NUMBERS

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.path = Path(self.folder) / "r.rel"
        self.model: dict[tuple[str, int | None], tuple[str, int | None, int | None, int, str]] = {}
        self.made = 0

    def teardown(self) -> None:
        self.relation.close()
        shutil.rmtree(self.folder)

    starts = st.one_of(st.none(), st.integers(0, 6))
    keys = st.lists(st.tuples(st.sampled_from(["EU", "US", "CH"]), starts), max_size=6)
    widths = st.lists(st.one_of(st.none(), st.integers(0, 4)), min_size=6, max_size=6)
    sizes = st.sampled_from([0, 900, 5000])

    def rows(self, keys: list[Any], widths: list[int | None], size: int) -> list[Any]:
        """Rows by number; without open ends, NULL becomes a value."""
        made = []
        for (region, lo), width in zip(keys, widths, strict=False):
            self.made += 1
            if not self.ends.opens:
                lo, width = lo or 0, width or 0
            hi = None if width is None else (lo or 0) + width
            made.append((region, lo, hi, self.made, "x" * size))
        return made

    def table(self, rows: list[Any]) -> pa.Table:
        of = self.ends.of
        return self.ends.table([(r, of(lo), of(hi), n, pad) for r, lo, hi, n, pad in rows])

    def refused(self, says: str, change: Callable[[], Any]) -> None:
        before = self.relation.version
        with pytest.raises((RelationError, DataError), match=says):
            change()
        self.relation.refresh()
        assert self.relation.version == before

    @initialize(keys=keys, widths=widths, size=sizes)
    def build(self, keys: list[Any], widths: list[int | None], size: int) -> None:
        fresh = self.rows(list(dict.fromkeys(keys)), widths, size)
        fresh = list({row[:2]: row for row in fresh}.values())
        table, opens = self.table(fresh), True if self.ends.opens else None
        self.relation = ts.Relation.build(
            self.path, table, KEY, 4096, unique=UNIQUE, open_ends=opens
        )
        self.model = {row[:2]: row for row in fresh}

    @rule(keys=keys, widths=widths, size=sizes, upsert=st.booleans(), dry=st.booleans())
    def update(
        self, keys: list[Any], widths: list[int | None], size: int, upsert: bool, dry: bool
    ) -> None:
        fresh = self.rows(keys, widths, size)
        own = [row[:2] for row in fresh]
        table = self.table(fresh)
        if len(set(own)) < len(own):
            self.refused("more than once", lambda: self.relation.update(table, upsert))
            return
        absent = set(own) - set(self.model)
        if absent and not upsert:
            self.refused("has no rows with", lambda: self.relation.update(table, upsert))
            return
        counts = self.relation.update(table, upsert, dry_run=dry)
        assert (counts.inserted, counts.removed) == (len(absent), 0)
        assert counts.replaced == len(own) - len(absent)
        if not dry:
            self.model |= {row[:2]: row for row in fresh}

    @rule(keys=keys, dry=st.booleans())
    def delete(self, keys: list[Any], dry: bool) -> None:
        doomed = self.rows(keys, [0] * 6, 0)
        gone = {row[:2] for row in doomed} & set(self.model)
        found = self.relation.delete(self.table(doomed).select(["region", "lo"]), dry_run=dry)
        assert found.removed == len(gone)
        if not dry:
            self.model = {key: row for key, row in self.model.items() if key not in gone}

    # --- Bad input ------------------------------------------------------------------------------

    changes = st.sampled_from(["insert", "update"])

    def tried(self, says: str, change: str, table: pa.Table) -> None:
        """Refuse the bad rows among good ones, in one call and within a transaction."""
        more = {"upsert": True} if change == "update" else {}
        self.refused(says, lambda: getattr(self.relation, change)(table, **more))
        self.refused(says, lambda: getattr(self.relation, change)(table, **more, dry_run=True))

    @rule(change=changes)
    def null_in_the_region(self, change: str) -> None:
        table = self.table(self.rows([("XX", 1), ("XX", 2)], [1, 1], 0))
        regions = pa.array(["XX", None])
        table = table.set_column(0, "region", regions)
        self.tried("NULL is in region in 1 rows.*nothing was changed", change, table)

    @rule(change=changes)
    def an_end_before_the_start(self, change: str) -> None:
        rows = [("XX", 1, 5, 1, ""), ("XX", 4, 3, 2, ""), ("XX", 6, 2, 3, "")]
        says = "2 intervals end before they begin, such as lo = .*, hi = .*; nothing was changed"
        self.tried(says, change, self.table(rows))

    @rule(change=changes)
    def a_string_that_is_not_utf8(self, change: str) -> None:
        table = self.table(self.rows([("XX", 1), ("XX", 2)], [1, 1], 0))
        table = table.set_column(0, "region", bad_text())
        self.tried("'region' has a string that is not UTF-8", change, table)

    @rule(change=changes)
    def addresses_of_both_kinds(self, change: str) -> None:
        if self.ends is not ADDRESSES:
            return
        long = (3).to_bytes(16, "big")
        rows = [("XX", self.ends.of(1), self.ends.of(2), 1, ""), ("XX", long, long, 2, "")]
        held = len(self.model) + 1
        says = f"4 bytes in {held}, 16 bytes in 1 rows, such as IPv4 and IPv6.*nothing was changed"
        self.tried(says, change, self.ends.table(rows))

    @rule(keys=keys)
    def a_change_while_another_one_is_made(self, keys: list[Any]) -> None:
        doomed = self.table(self.rows(keys, [0] * 6, 0))
        with ts.Relation.open(self.path) as other, other.transaction() as changes:
            changes.delete(doomed)
            self.refused("being written by another writer", lambda: self.relation.delete(doomed))
            changes.insert(self.table([]))
            assert self.relation.rows == len(self.model)
        gone = {row[:2] for row in self.rows(keys, [0] * 6, 0)}
        self.model = {key: row for key, row in self.model.items() if key not in gone}

    @rule()
    def a_build_over_it(self) -> None:
        says = "there is a relation at .* already; pass replace=True"
        table = self.table([])
        self.refused(says, lambda: ts.Relation.build(self.path, table, KEY, unique=UNIQUE))

    @rule()
    def fold_and_reopen(self) -> None:
        assert self.relation.fold()
        self.relation.close()
        self.relation = ts.Relation.open(self.path)

    # --- Answers --------------------------------------------------------------------------------

    @invariant()
    def finds_what_the_dictionary_has(self) -> None:
        if not hasattr(self, "relation"):
            return
        self.relation.refresh()
        self.relation.check()
        asked = [(region, t) for region in ("EU", "US", "CH", "XX") for t in range(0, 12, 3)]
        stream = pa.table(
            {
                "region": [region for region, _ in asked],
                "t": pa.array([self.ends.of(t) for _, t in asked], self.ends.kind),
                "number": [t for _, t in asked],
            }
        )
        with ts.RelationJoin(self.relation, ON, "2 MB", columns=["region", "number", "price"]) as j:
            batches = [*j.push(stream), *j.flush()]
        found = Counter(tuple(row.values()) for b in batches for row in b.to_pylist())
        assert found == Counter(
            (region, t, price)
            for region, t in asked
            for own, lo, hi, price, _ in self.model.values()
            if own == region and (lo is None or lo <= t) and (hi is None or t <= hi)
        )
        counts = self.relation.intervals()
        opened = sum(None in row[1:3] for row in self.model.values())
        assert (counts.rows, counts.open, counts.empty) == (len(self.model), opened, 0)


@pytest.mark.parametrize("ends", [NUMBERS, ADDRESSES], ids=["numbers", "addresses"])
def test_random_changes_of_tariffs(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda file: None)  # no crash here; a sync takes long
    machine = type("Machine", (Tariffs,), {"ends": ends})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=scaled(8), stateful_step_count=12, deadline=None)
    )


# --- Builds -------------------------------------------------------------------------------------


@pytest.mark.parametrize("ends", [NUMBERS, ADDRESSES], ids=["numbers", "addresses"])
def test_intervals_that_end_before_they_begin(tmp_path: Path, ends: Ends) -> None:
    rows = [("EU", 1, 5, 1, ""), ("EU", 4, 3, 2, ""), ("US", 6, 2, 3, "")]
    table = ends.table([(r, ends.of(lo), ends.of(hi), n, pad) for r, lo, hi, n, pad in rows])
    says = "2 intervals end before they begin, such as lo = .*4.*, hi = .*3.*keep_empty=True"
    with pytest.raises(RelationError, match=says):
        ts.Relation.build(tmp_path / "r.rel", table, KEY)
    assert os.listdir(tmp_path) == []
    with ts.Relation.build(tmp_path / "r.rel", table, KEY, keep_empty=True) as relation:
        assert (relation.rows, relation.empty_intervals) == (3, 2)
        relation.insert(table.slice(1, 1))
        relation.compact()
        relation.insert(table.slice(2, 1))
        assert (relation.rows, relation.empty_intervals, relation.keep_empty) == (5, 4, True)


def test_addresses_of_both_kinds_are_not_mixed(tmp_path: Path) -> None:
    """As bytes, 32.1.13.184 lies between 2001:: and 2001:ffff:…, which nobody means."""
    four, six = b"\x20\x01\x0d\xb8", b"\x20\x01" + bytes(14)
    last = b"\x20\x01" + b"\xff" * 14
    mixed = pa.table({"first": [four, four, six], "last": [four, four, last]})
    with pytest.raises(DataError, match="4 bytes in 2, 16 bytes in 1 rows, such as IPv4 and IPv6"):
        ts.Relation.build(tmp_path / "r.rel", mixed, ("first", "last"))
    assert os.listdir(tmp_path) == []
    stream = pa.table({"ip": [four, six, None, four]})
    for kind in (pa.binary(), pa.binary(16)):
        arrays = [pa.array([end], kind) for end in (six, last)]
        table = pa.table(arrays, names=["first", "last"])
        with (
            ts.Relation.build(tmp_path / "six.rel", table, ("first", "last"), replace=True) as made,
            ts.RelationJoin(made, "l.ip BETWEEN r.first AND r.last", "1 MB") as join,
        ):
            with pytest.raises(DataError, match="ends of intervals have 16 bytes.*2 of 4 bytes"):
                join.push(stream)
            found = [*join.push(stream.slice(1, 2)), *join.flush()]
            assert [row["ip"] for batch in found for row in batch.to_pylist()] == [six]
            assert join.metrics().rows == 2
