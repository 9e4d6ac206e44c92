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
import pyarrow.compute as pc
import pyarrow.types as pat

from thetastream._jit.arrays import Array, Mask
from thetastream.condition.expression import Expression
from thetastream.condition.sql import parse
from thetastream.data.batch import in_python, one_batch, plain, to_keys
from thetastream.data.evaluate import true_mask, type_of
from thetastream.errors import PredicateError, RelationError, SchemaError, StateError, suggest
from thetastream.relation.change.update import Doomed, Draft
from thetastream.relation.files.generation import stored_layout
from thetastream.relation.files.snapshot import Snapshot
from thetastream.relation.files.sorting import KeyedRows, stable_order
from thetastream.relation.files.splices import Entries
from thetastream.relation.image.columns import codec_of
from thetastream.schema import KeyKind
from thetastream.side import Side

_SHOWN = 5


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

    def insert(self, rows: Any) -> int:
        """Insert rows: a table, a batch or several. Returns how many.

        Rows whose key is NULL are skipped and counted (``null_keys``), as in a build.
        """
        chunk, nulls = self._chunk(rows)
        draft = self.draft.copy()
        draft.count_nulls(nulls)
        draft.change(chunk)
        self._draft = draft
        return len(chunk)

    def update(self, rows: Any, upsert: bool = False) -> int:
        """Replace all rows that have the keys of these rows. Returns how many were put in.

        A missing key is an error, unless ``upsert``: then its rows are inserted. In an interval
        relation the key is ``lo``.
        """
        chunk, nulls = self._chunk(rows)
        draft = self.draft.copy()
        values = chunk.batch.column(self._layout.key[0])
        doomed = self._doomed(chunk.keys, values, None)
        gone = draft.change(chunk, np.unique(chunk.keys), doomed)
        if not upsert:
            self._refuse_missing(chunk, gone)
        draft.count_nulls(nulls)
        self._draft = draft
        return len(chunk)

    def delete(self, keys: Any = None, *, where: str | Expression | None = None) -> int:
        """Delete all rows with the keys. Returns how many rows were deleted.

        The keys are an array, a list, or a table or batch with the key column.
        ``where`` is a further condition on the columns ``r.…``; without keys it decides alone, and
        every leaf is read. NULLs among the keys are ignored.
        """
        condition = None if where is None else self._condition(where)
        draft = self.draft.copy()
        if keys is None:
            if condition is None:
                raise RelationError(
                    "delete takes keys, a condition where=…, or both; to delete every row pass "
                    "where='true'"
                )
            gone = draft.change(keys=None, doomed=self._doomed(None, None, condition))
        else:
            values = self._key_values(keys)
            wanted = to_keys(values, self._stored.domain)[0]
            doomed = self._doomed(wanted, values, condition)
            gone = draft.change(keys=np.unique(wanted), doomed=doomed)
        self._draft = draft
        return sum(map(len, gone))

    def _doomed(
        self, keys: Array | None, values: pa.Array | None, condition: Expression | None
    ) -> Doomed:
        """A function that marks the rows to delete: one of the keys, and the condition holds.

        Keys of strings are hashes, so the strings themselves are compared too.
        """
        name = self._layout.key[0]
        wanted = None if keys is None else np.unique(keys)
        exact = values if self._layout.domain.kind is KeyKind.BYTES else None

        def doomed(rows: KeyedRows) -> Mask:
            mask = np.ones(len(rows), np.bool_) if wanted is None else _among(rows.keys, wanted)
            if exact is not None:
                mask &= _is_in(rows.batch.column(name), exact)
            if condition is not None:
                places = np.flatnonzero(mask)
                batch = rows.take(places).batch
                mask[places] = true_mask(condition, lambda c: batch.column(c.name), len(places))
            return mask

        return doomed

    def _refuse_missing(self, rows: KeyedRows, gone: list[KeyedRows]) -> None:
        name = self._layout.key[0]
        if self._layout.domain.kind is KeyKind.BYTES:
            empty = rows.batch.column(name).slice(0, 0)
            stored = pa.concat_arrays([empty, *(chunk.batch.column(name) for chunk in gone)])
            present = _is_in(rows.batch.column(name), stored)
        else:
            keys = np.concatenate([np.empty(0, np.int64), *(chunk.keys for chunk in gone)])
            present = _among(rows.keys, np.unique(keys))
        if present.all():
            return
        values = rows.batch.column(name).filter(pa.array(~present)).unique()
        shown = ", ".join(map(repr, in_python(values[:_SHOWN])))
        more = f" and {len(values) - _SHOWN:,} others" if len(values) > _SHOWN else ""
        raise RelationError(
            f"update: the relation has no rows with {name} = {shown}{more}; nothing was changed. "
            "Use upsert=True to insert them"
        )

    # --- Input ----------------------------------------------------------------------------------

    def _chunk(self, rows: Any) -> tuple[KeyedRows, int]:
        """Rows in key order, in their stored types, and how many were skipped for NULL keys."""
        batch = _fitted(_batch_of(rows, self._layout.schema), self._layout.schema)
        keys, his, valid = self._layout.keys_of(batch)
        pairs = zip(self._codecs, batch.columns, strict=True)
        arrays = [codec.decode(array) for codec, array in pairs]
        chunk = KeyedRows(pa.RecordBatch.from_arrays(arrays, schema=self._stored.schema), keys, his)
        if valid is not None:
            chunk = chunk.take(np.flatnonzero(valid))
        order = stable_order(chunk.keys)
        return (chunk if order is None else chunk.take(order)), batch.num_rows - len(chunk)

    def _key_values(self, keys: Any) -> pa.Array:
        """The keys passed by the caller, without NULLs, in their stored type."""
        name = self._layout.key[0]
        kind = self._stored.schema.field(name).type
        if isinstance(keys, pa.Table | pa.RecordBatch):
            if name not in keys.schema.names:
                raise SchemaError(
                    f"delete: the rows passed have no key column {name!r}; they have "
                    f"{', '.join(keys.schema.names)}.{suggest(name, keys.schema.names)}"
                )
            keys = keys.column(name)
        try:
            if not isinstance(keys, pa.Array | pa.ChunkedArray):
                keys = pa.array(keys, self._layout.schema.field(name).type)
            values = plain(keys)
            values = codec_of(values.type, name).decode(values)
            return (values if values.type.equals(kind) else values.cast(kind)).drop_null()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise SchemaError(
                f"delete: expected keys of type {self._layout.schema.field(name).type}, the type "
                f"of column {name!r}; got others ({error})"
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


def _among(keys: Array, wanted: Array) -> Mask:
    """Where keys are among ``wanted``, which ascend."""
    if not len(wanted):
        return np.zeros(len(keys), np.bool_)
    places = np.minimum(np.searchsorted(wanted, keys), len(wanted) - 1)
    mask: Mask = wanted[places] == keys
    return mask


def _is_in(values: pa.Array, others: pa.Array) -> Mask:
    mask: Mask = pc.is_in(values, value_set=others).to_numpy(zero_copy_only=False)
    return mask


def _batch_of(rows: Any, schema: pa.Schema) -> pa.RecordBatch:
    """The caller's rows as one batch."""
    if isinstance(rows, pa.RecordBatch):
        return rows
    if isinstance(rows, pa.RecordBatchReader):
        rows = rows.read_all()
    elif isinstance(rows, list | tuple) and all(isinstance(b, pa.RecordBatch) for b in rows):
        rows = pa.Table.from_batches(rows, schema=None if rows else schema)
    if not isinstance(rows, pa.Table):
        raise SchemaError(
            "expected rows as a pyarrow table, a record batch, a list or a reader of batches; got "
            f"{type(rows).__name__}: convert them, for example with pyarrow.Table.from_pylist"
        )
    return one_batch(rows)


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of the relation, in its order; SchemaError names what differs."""
    names = batch.schema.names
    extra = [name for name in names if name not in schema.names]
    if extra or len(set(names)) < len(names):
        what = ", ".join(map(repr, extra)) if extra else "two columns of one name"
        raise SchemaError(
            f"the rows have {what}, which the relation does not have; it has "
            f"{', '.join(schema.names)}"
        )
    arrays = []
    for field in schema:
        if field.name not in names:
            raise SchemaError(
                f"the rows lack the column {field.name!r} of the relation; they have "
                f"{', '.join(names)}"
            )
        array = batch.column(field.name)
        if pat.is_null(array.type):
            array = pa.nulls(len(array), field.type)
        if not array.type.equals(field.type):
            raise SchemaError(
                f"column {field.name!r} of the rows has type {array.type}; the relation has it as "
                f"{field.type}: cast it"
            )
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
