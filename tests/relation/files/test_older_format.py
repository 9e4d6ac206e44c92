"""Relations of format 1 (no unique keys, open ends and codes), and of earlier codes of ends."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import thetastream as ts
from thetastream.errors import PredicateError
from thetastream.relation.files import sampling
from thetastream.relation.files.folder import FORMAT, Folder, digest
from thetastream.relation.files.generation import write_generation
from thetastream.relation.files.sorting import KeyedRows, stable_order
from thetastream.relation.image.coding import KeyPart, parts_of
from thetastream.relation.image.key import KeyColumns
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


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()], ids=str)
def test_ends_that_were_coded_without_the_columns_in_front(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: pa.DataType
) -> None:
    def before(schema: pa.Schema, key: KeyColumns) -> tuple[tuple[KeyPart, ...], ...]:
        first, second = parts_of(schema, key)
        return first, second[-1:] if pa.types.is_string(kind) else ()

    def column(values: list[int]) -> pa.Array:
        return pa.array([f"{value:03}" if kind == pa.string() else value for value in values], kind)

    lows = [n * 7 % 60 for n in range(200)]
    groups = [f"g{n % 3}" for n in range(200)]
    ends = {"lo": column(lows), "hi": column([low + low % 5 for low in lows])}
    table = padded({"g": groups, **ends})
    monkeypatch.setattr(sampling, "parts_of", before)
    ts.Relation.build(tmp_path / "r.rel", table, ("g", ("lo", "hi")), 4096).close()
    monkeypatch.undo()
    stream = pa.table({"g": groups[:60], "x": column(list(range(60))), "n": range(60)})
    on = "l.g = r.g AND l.x BETWEEN r.lo AND r.hi"
    with ts.Relation.open(tmp_path / "r.rel") as relation:
        relation.insert(table.slice(0, 5))
        relation.check()
        with relation.snapshot() as snapshot:
            coding = snapshot.layout.codings[1]
        assert (None if coding is None else len(coding.parts)) == (
            1 if kind == pa.string() else None
        )
        with ts.RelationJoin(relation, on, "1 MB") as join:
            found = rows_of([*join.push(stream), *join.flush()])
    assert found == truth(stream, pa.concat_tables([table, table.slice(0, 5)]), on, "inner")
