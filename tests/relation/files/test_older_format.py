"""Relations of format 1: no unique keys, open ends and codes; strings in the order of a hash."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import thetastream as ts
from thetastream.errors import PredicateError
from thetastream.relation.files.folder import FORMAT, Folder, digest
from thetastream.relation.files.generation import write_generation
from thetastream.relation.files.sorting import KeyedRows, stable_order
from thetastream.relation.image.layout import LeafLayout

from ..relation_cases import padded, rows_of, truth

LATER = ("unique", "equal", "open_ends", "keep_empty")


def as_before(path: Path, table: pa.Table) -> None:
    """Write a relation of format 1, sorted by the column ``k``."""
    path.mkdir()
    folder, (batch,) = Folder(path), table.combine_chunks().to_batches()
    layout = LeafLayout(table.schema, "k", 4096)
    keys, his, _ = layout.keys_of(batch)
    rows, order = KeyedRows(batch, keys, his), stable_order(keys)
    rows = rows if order is None else rows.take(order)
    current = write_generation(folder, "0123456789ab", layout, [rows], 0.8, version=1)
    data = (path / current.index).read_bytes()
    length = int.from_bytes(data[8:16], "little")
    head = json.loads(data[16 : 16 + length])
    for name in LATER:
        del head["facts"][name]
    text = json.dumps(head).encode()
    padding = bytes(-len(text) % 8)
    rest = data[16 + length + -length % 8 :]
    data = data[:8] + len(text).to_bytes(8, "little") + text + padding + rest
    (path / current.index).write_bytes(data)
    folder.replace(replace(current, format=1, index_bytes=len(data), index_checksum=digest(data)))


@pytest.mark.parametrize("texts", [True, False])
def test_a_relation_of_format_1_is_read_and_changed(tmp_path: Path, texts: bool) -> None:
    keys = [n * 7 % 60 for n in range(200)]
    table = padded({"k": [f"key {key}" for key in keys] if texts else keys})
    as_before(tmp_path / "r.rel", table)
    names = [f"key {n}" for n in range(0, 90, 3)] if texts else list(range(0, 90, 3))
    stream = pa.table({"x": names, "n": range(len(names))})
    with ts.Relation.open(tmp_path / "r.rel") as relation:
        relation.check()
        assert (relation.key, relation.unique, relation.open_ends) == (("k",), (), None)
        assert relation.keep_empty  # it took intervals that end before they begin
        fresh = padded({"k": ["key 3" if texts else 3] * 2})
        relation.insert(fresh)
        relation.check()
        table = pa.concat_tables([table, fresh])
        with ts.RelationJoin(relation, "l.x = r.k", "1 MB") as join:
            found = rows_of([*join.push(stream), *join.flush()])
        assert found == truth(stream, table, "l.x = r.k", "inner")
        if texts:
            with pytest.raises(PredicateError, match="must compare r.k itself"):
                ts.RelationJoin(relation, "l.x < r.k")
        assert relation.fold()
        assert Folder(relation.path).current().format == FORMAT
    with ts.Relation.open(tmp_path / "r.rel") as relation:
        relation.check()
        assert relation.rows == 202
