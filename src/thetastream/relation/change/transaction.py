"""Changes of a relation that become visible and durable together, or not at all.

>>> with relation.transaction() as t:                                           # doctest: +SKIP
...     t.insert(new_parts)
...     t.delete(pa.array([17, 4711]), where="r.price = 0")

Everything invalid is refused before anything is written: wrong columns or types, missing keys, a
condition that cannot be evaluated. A call that fails leaves the transaction as it was before the
call; an exception that leaves the ``with`` block changes nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from thetastream._jit.arrays import Array, Mask
from thetastream.condition.expression import Expression
from thetastream.condition.sql import parse
from thetastream.data.batch import plain
from thetastream.data.evaluate import true_mask, type_of
from thetastream.errors import PredicateError, RelationError, SchemaError, StateError, suggest
from thetastream.relation.change.counts import ChangeCounts
from thetastream.relation.change.input import batch_of, fitted, frame_table, is_frame
from thetastream.relation.change.update import Doomed, Draft
from thetastream.relation.files.generation import stored_layout
from thetastream.relation.files.refusals import (
    count_lengths,
    empty_intervals,
    empty_refused,
    has_binary_ends,
    interval_text,
    null_in_front,
    refuse_lengths,
    refuse_text,
)
from thetastream.relation.files.snapshot import Snapshot
from thetastream.relation.files.sorting import KeyedRows, joined_chunks, stable_order
from thetastream.relation.files.splices import Entries
from thetastream.relation.files.unique import RowKey
from thetastream.relation.image.columns import codec_of
from thetastream.side import Side


class Transaction:
    """Uncommitted changes; created by ``relation.transaction()``.

    Holds every changed leaf in memory: rebuild a relation to replace most of its rows.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        """``snapshot`` is the newest version; it must stay open during the transaction."""
        state = snapshot.state
        self._layout = state.layout
        self._stored = stored_layout(state.layout)
        self._codecs = [codec_of(field.type, field.name) for field in state.schema]
        self._by_key = RowKey(state.layout.sorted_by, state.layout.is_exact)
        self._unique: RowKey | None = None
        if state.facts.unique:
            same = state.facts.unique == self._by_key.names
            self._unique = RowKey(state.facts.unique, same and self._by_key.exact)
        self._draft: Draft | None = Draft(
            self._stored, state.facts, Entries.of(state.fences), snapshot.read
        )

    @property
    def draft(self) -> Draft:
        """The relation as this transaction has made it so far."""
        if self._draft is None:
            raise StateError("the transaction has ended; begin another with relation.transaction()")
        return self._draft

    @property
    def rows(self) -> int:
        """Rows of the relation with the changes so far."""
        return self.draft.facts.rows

    def end(self) -> None:
        """Refuse further changes."""
        self._draft = None

    # --- Changes --------------------------------------------------------------------------------

    def insert(self, rows: Any) -> ChangeCounts:
        """Insert rows of any kind that a build takes. Returns the counts; as a number, how many.

        Rows whose key is NULL are skipped and counted (``null_keys``), as in a build. In a relation
        with a unique key, a row whose key is there already is an error.
        """
        chunk, nulls = self._chunk(rows)
        draft = self.draft.copy()
        draft.count_nulls(nulls)
        if self._unique is None:
            draft.change(chunk)
        else:
            self._refuse_repeated("insert", chunk)
            unique, present = self._unique, list[KeyedRows]()

            def look(stored: KeyedRows) -> Mask:
                there = unique.among(stored, chunk)
                if there.any():
                    present.append(stored.take(np.flatnonzero(there)))
                return np.zeros(len(stored), np.bool_)

            draft.change(chunk, np.unique(chunk.keys), look)
            self._refuse_present(present)
        self._draft = draft
        return ChangeCounts(inserted=len(chunk))

    def update(self, rows: Any, upsert: bool = False, replace_key: bool = False) -> ChangeCounts:
        """Replace rows with the same key. Returns the counts.

        Rows are found by the unique key, if the relation has one, else by the key it is sorted by
        (in an interval relation: ``lo``). Without a unique key, several rows may have one key: an
        update that would remove rows without another in their place is refused, unless
        ``replace_key``, which replaces *all* rows of the keys. A missing key is an error, unless
        ``upsert``: then its rows are inserted.
        """
        chunk, nulls = self._chunk(rows)
        by = self._by_key
        if self._unique is not None:
            self._refuse_repeated("update", chunk)
            by = by if replace_key else self._unique
        draft = self.draft.copy()
        gone = draft.change(chunk, np.unique(chunk.keys), lambda stored: by.among(stored, chunk))
        if not upsert:
            self._refuse_missing(by, chunk, gone)
        counts = self._replaced(by, chunk, gone)
        if counts.removed and not replace_key:
            self._refuse_removal(by, chunk, gone, counts.removed)
        draft.count_nulls(nulls)
        self._draft = draft
        return counts

    def delete(self, keys: Any = None, *, where: str | Expression | None = None) -> ChangeCounts:
        """Delete all rows with the keys. Returns the counts; as a number, rows deleted.

        The keys are a table or batch with the columns of the unique key, or of the key that the
        relation is sorted by; for a key of one column, an array or a list too. ``where`` is a
        further condition on the columns ``r.…``; without keys it decides alone, and every leaf is
        read. NULLs among the keys are ignored.
        """
        condition = None if where is None else self._condition(where)
        draft = self.draft.copy()
        if keys is None:
            if condition is None:
                raise RelationError(
                    "delete takes keys, a condition where=…, or both; to delete every row pass "
                    "where='true'"
                )
            gone = draft.change(keys=None, doomed=_doomed(None, None, condition))
        else:
            by, wanted = self._wanted(keys)
            doomed = _doomed(by, wanted, condition)
            gone = draft.change(keys=np.unique(wanted.keys), doomed=doomed)
        self._draft = draft
        return ChangeCounts(removed=sum(map(len, gone)))

    @staticmethod
    def _replaced(by: RowKey, chunk: KeyedRows, gone: list[KeyedRows]) -> ChangeCounts:
        """Count, key by key, rows put in beside those that are gone."""
        if not gone:
            return ChangeCounts(inserted=len(chunk))
        stored = joined_chunks(gone)
        _, removed = _surplus(by, chunk, stored)
        left = int(removed.sum())
        replaced = len(stored) - left
        return ChangeCounts(inserted=len(chunk) - replaced, replaced=replaced, removed=left)

    # --- Refusals -------------------------------------------------------------------------------

    def _refuse_repeated(self, what: str, chunk: KeyedRows) -> None:
        assert self._unique is not None
        first, counts = self._unique.repeated(chunk)
        if len(first):
            raise RelationError(
                f"{what}: the relation is unique by {', '.join(self._unique.names)}, but the rows "
                f"have {len(first):,} of its values more than once: "
                f"{self._unique.text(chunk, first, counts)}; nothing was changed. Pass one row "
                "of each"
            )

    def _refuse_present(self, present: list[KeyedRows]) -> None:
        if not present:
            return
        assert self._unique is not None
        rows = joined_chunks(present)
        raise RelationError(
            f"insert: the relation is unique by {', '.join(self._unique.names)}, and has rows with "
            f"{self._unique.text(rows, np.arange(len(rows)))} already; nothing was changed. Use "
            "update(…, upsert=True) to replace them"
        )

    def _refuse_missing(self, by: RowKey, chunk: KeyedRows, gone: list[KeyedRows]) -> None:
        missing = np.flatnonzero(by.missing(chunk, gone))
        if len(missing):
            rows = chunk.take(missing)
            (numbers,) = by.numbers(rows)
            first = np.sort(np.unique(numbers, return_index=True)[1])
            raise RelationError(
                f"update: the relation has no rows with {by.text(rows, first)}; nothing was "
                "changed. Use upsert=True to insert them"
            )

    def _refuse_removal(
        self, by: RowKey, chunk: KeyedRows, gone: list[KeyedRows], removed: int
    ) -> None:
        stored = joined_chunks(gone)
        first, surplus = _surplus(by, chunk, stored)
        some = first[surplus > 0]
        raise RelationError(
            f"update: several rows share a key, and {removed:,} would be removed without another "
            f"in their place: {len(chunk):,} rows were passed for {len(stored):,} with their keys "
            f"({by.text(stored, some)}); nothing was changed. Build the relation with unique=… to "
            "replace single rows, or pass replace_key=True to replace all rows of a key"
        )

    # --- Input ----------------------------------------------------------------------------------

    def _chunk(self, rows: Any) -> tuple[KeyedRows, int]:
        """Rows in key order, in their stored types, and how many were skipped for NULL keys."""
        batch = fitted(*batch_of(rows, self._layout.schema), self._layout.schema)
        refuse_text(batch, self._layout)
        keys, his, valid = self._layout.keys_of(batch)
        self._refuse_ends(batch, empty_intervals(batch, self._layout, keys, his, valid))
        pairs = zip(self._codecs, batch.columns, strict=True)
        arrays = [codec.decode(array) for codec, array in pairs]
        chunk = KeyedRows(pa.RecordBatch.from_arrays(arrays, schema=self._stored.schema), keys, his)
        if valid is not None:
            self._refuse_null_ends(batch, valid)
            chunk = chunk.take(np.flatnonzero(valid))
        order = stable_order(chunk.keys)
        return (chunk if order is None else chunk.take(order)), batch.num_rows - len(chunk)

    def _refuse_ends(self, batch: pa.RecordBatch, empty: Mask | None) -> None:
        """Refuse intervals that end before they begin, and ends of several lengths."""
        if empty is not None and empty.any() and not self.draft.facts.keep_empty:
            first = interval_text(batch, self._layout, empty)
            rows = int(np.count_nonzero(empty))
            raise empty_refused(rows, first, "; nothing was changed")
        if has_binary_ends(batch.schema, self._layout.columns):
            name = self._layout.key[0]
            lengths = count_lengths(batch.column(name))
            stored = self.draft.first_rows()
            if stored is not None:
                (each,) = count_lengths(stored.column(name).slice(0, 1))
                lengths[each] += self.rows
            refuse_lengths(lengths, name, "; nothing was changed")

    def _refuse_null_ends(self, batch: pa.RecordBatch, valid: Mask) -> None:
        key = self._layout.columns
        for name in key.equal:
            if absent := batch.column(name).null_count:
                raise RelationError(f"{null_in_front(name, absent)}; nothing was changed")
        counts = {name: batch.column(name).null_count for name in key.ordered}
        if key.is_interval and key.open_ends is None and any(counts.values()):
            shown = ", ".join(f"{name} in {count:,}" for name, count in counts.items() if count)
            raise RelationError(
                f"{int(np.count_nonzero(~valid)):,} of the rows have an interval without an end: "
                f"NULL is in {shown}; nothing was changed. Build the relation again with "
                "open_ends=True to keep such rows, or open_ends=False to leave them out"
            )

    def _wanted(self, keys: Any) -> tuple[RowKey, KeyedRows]:
        """The keys passed by the caller, in order and without NULLs, and the columns they have."""
        by = self._by_key
        if is_frame(keys):
            keys = frame_table(keys, self._layout.schema)
        if isinstance(keys, pa.Table | pa.RecordBatch):
            names = keys.schema.names
            if self._unique is not None and set(self._unique.names) <= set(names):
                by = self._unique
            columns = []
            for name in by.names:
                if name not in names:
                    raise SchemaError(
                        f"delete: the rows passed have no key column {name!r}; they have "
                        f"{', '.join(names)}.{suggest(name, names)}"
                    )
                columns.append(self._key_values(name, keys.column(name)))
        elif len(by.names) > 1:
            raise SchemaError(
                f"delete: the key is {', '.join(by.names)}; pass a table with these columns, got "
                f"{type(keys).__name__}"
            )
        else:
            columns = [self._key_values(by.names[0], keys)]
        batch = pa.RecordBatch.from_arrays(columns, names=list(by.names))
        places, valid = self._stored.order_keys(batch)
        wanted = KeyedRows(batch, places)
        if valid is not None:
            wanted = wanted.take(np.flatnonzero(valid))
        order = stable_order(wanted.keys)
        return by, wanted if order is None else wanted.take(order)

    def _key_values(self, name: str, keys: Any) -> pa.Array:
        """Values of a key column, in their stored type."""
        declared = self._layout.schema.field(name).type
        kind = self._stored.schema.field(name).type
        try:
            if not isinstance(keys, pa.Array | pa.ChunkedArray):
                keys = pa.array(keys, declared)
            values = plain(keys)
            values = codec_of(values.type, name).decode(values)
            return values if values.type.equals(kind) else values.cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise SchemaError(
                f"delete: expected keys of type {declared}, the type of column {name!r}; got "
                f"others ({error})"
            ) from None

    def _condition(self, where: str | Expression) -> Expression:
        condition = where if isinstance(where, Expression) else parse(where)
        names = self._layout.schema.names
        if Side.LEFT in condition.sides():
            raise PredicateError(
                f"where={str(condition)!r} refers to a left side; the relation's columns are r.…"
            )
        for name in condition.columns(Side.RIGHT):
            if name not in names:
                raise SchemaError(
                    f"where={str(condition)!r}: the relation has no column {name!r}; it has "
                    f"{', '.join(names)}.{suggest(name, names)}"
                )
        kind = type_of(condition, lambda column: self._stored.schema.field(column.name).type)
        if not pat.is_boolean(kind):
            raise SchemaError(f"where={str(condition)!r}: expected a condition, got {kind}")
        return condition


def _doomed(by: RowKey | None, wanted: KeyedRows | None, condition: Expression | None) -> Doomed:
    """A function that marks rows to delete: they have a wanted key, and the condition holds."""

    def doomed(rows: KeyedRows) -> Mask:
        if by is None or wanted is None:
            mask = np.ones(len(rows), np.bool_)
        else:
            mask = by.among(rows, wanted)
        if condition is not None:
            places = np.flatnonzero(mask)
            batch = rows.take(places).batch
            mask[places] = true_mask(condition, lambda c: batch.column(c.name), len(places))
        return mask

    return doomed


def _surplus(by: RowKey, chunk: KeyedRows, stored: KeyedRows) -> tuple[Array, Array]:
    """The first stored row of each key, and by how many its rows outnumber those of the chunk."""
    given, present = by.numbers(chunk, stored)
    values, first, counts = np.unique(present, return_index=True, return_counts=True)
    each, others = np.unique(given, return_counts=True)
    places = np.minimum(np.searchsorted(each, values), max(len(each) - 1, 0))
    matched = others[places] * (each[places] == values) if len(each) else np.zeros_like(counts)
    return first, np.maximum(counts - matched, 0)
