"""Keys of several columns: equality in front of a key or an interval, against the oracle."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import thetastream as ts
from thetastream.errors import OptionError, PredicateError, RelationError

from ..relation_cases import padded, rows_of, truth

KEYS: dict[str, tuple[Any, list[str]]] = {
    "one and a key": (
        ("g", ("k",)),
        [
            "l.g = r.g AND l.x = r.k",
            "l.g = r.g AND abs(l.x - r.k) <= 2",
            "l.g = r.g AND l.x <> r.k",
            "l.g = r.g AND l.x >= r.k AND l.y < r.k",
            "l.g = r.g",
            "l.g = r.g AND (l.x = r.k OR l.x = r.k + 3)",
        ],
    ),
    "two and a key": (
        ("h", "g", ("k",)),
        [
            "l.h = r.h AND l.g = r.g AND l.x < r.k",
            "l.h = r.h AND l.x = r.k",
            "l.h < r.h AND l.g = r.g AND l.x = r.k",
            "abs(l.h - r.h) <= 1",
        ],
    ),
    "one and an interval": (
        ("g", ("k", "e")),
        [
            "l.g = r.g AND l.x BETWEEN r.k AND r.e",
            "l.g = r.g AND l.x >= r.k AND l.x < r.e AND l.y > r.h",
            "l.g = r.g AND l.x > r.e",
            "l.g = r.g AND l.x = r.k AND l.y <> r.e",
        ],
    ),
}
CASES = [(name, on) for name, (_, conditions) in KEYS.items() for on in conditions]


def tables(seed: int, rows: int, groups: int) -> tuple[pa.Table, pa.Table]:
    rng = np.random.default_rng(seed)
    words = [f"region {n}" for n in range(groups)]
    keys = rng.integers(-20, 20, rows)
    stored = {
        "g": rng.choice(words, rows).tolist(),
        "h": rng.integers(0, 3, rows).tolist(),
        "k": keys.tolist(),
        "e": (keys + rng.integers(-1, 9, rows)).tolist(),
    }
    count = 60
    stream = pa.table(
        {
            "g": pa.array(rng.choice([*words, "nowhere"], count).tolist()),
            "h": rng.integers(0, 4, count),
            "x": pa.array(rng.integers(-25, 25, count), mask=rng.random(count) < 0.1),
            "y": rng.integers(-5, 9, count),
            "n": range(count),
        }
    )
    return padded(stored), stream


@pytest.mark.parametrize(("name", "on"), CASES)
@pytest.mark.parametrize("groups", [1, 3, 80])
def test_as_the_oracle(tmp_path: Path, name: str, on: str, groups: int) -> None:
    table, stream = tables(len(on), 300, groups)
    how = ["inner", "left", "semi", "anti"][len(on) % 4]
    key = KEYS[name][0]
    with ts.Relation.build(
        tmp_path / "r.rel", table.slice(0, 200), key, 4096, keep_empty=True
    ) as relation:
        assert relation.key == key
        relation.check()
        relation.insert(table.slice(200))
        relation.check()
        with ts.RelationJoin(relation, on, "300 kB", how=how, stream_rows=10) as join:
            found = rows_of([*join.push(stream), *join.flush()])
            join.check()
        assert found == truth(stream, table, on, how)
    with ts.Relation.open(tmp_path / "r.rel") as relation:
        assert relation.to_table().sort_by("id").equals(table.combine_chunks())


def test_open_ends_within_a_region(tmp_path: Path) -> None:
    """The example of a new user: tariffs of regions, some of them still valid."""
    tariffs = pa.table(
        {
            "region": ["EU", "EU", "US", "CH"],
            "valid_from": [1, 10, None, 1],
            "valid_to": [9, None, 5, None],
            "price": [1.0, 2.0, 3.0, 4.0],
        }
    )
    key = ("region", ("valid_from", "valid_to"))
    path = tmp_path / "tariffs.rel"
    unique = ("region", "valid_from")
    with ts.Relation.build(path, tariffs, key, unique=unique, open_ends=True) as relation:
        assert str(relation.key) == "('region', ('valid_from', 'valid_to'))"
        assert "key=region, (valid_from, valid_to)" in repr(relation)
        change = tariffs.slice(1, 1).set_column(3, "price", pa.array([9.0]))
        assert relation.update(change).replaced == 1
        relation.check()
        on = "l.region = r.region AND l.t BETWEEN r.valid_from AND r.valid_to"
        stream = pa.table({"region": ["EU", "EU", "US", "US", "CH"], "t": [3, 1000, -5, 6, 2**62]})
        with ts.RelationJoin(relation, on, "1 MB") as join:
            found = [row for b in (*join.push(stream), *join.flush()) for row in b.to_pylist()]
        assert sorted((row["region"], row["t"], row["price"]) for row in found) == [
            ("CH", 2**62, 4.0),
            ("EU", 3, 1.0),
            ("EU", 1000, 9.0),
            ("US", -5, 3.0),
        ]


@pytest.mark.parametrize("groups", [2, 40, 3000])
def test_no_more_blocks_are_read_than_by_a_plain_key(tmp_path: Path, groups: int) -> None:
    """The same rows and questions, once as (group, number) and once as one number in that order."""
    rows, rng = 60_000, np.random.default_rng(groups)
    group = np.sort(rng.integers(0, groups, rows))
    number = rng.integers(0, 1 << 40, rows)
    order = np.lexsort((number, group))
    group, number = group[order], number[order]
    table = pa.table(
        {"g": pa.array([f"g{n:06}" for n in group]), "k": number, "place": np.arange(rows)}
    )
    asked = rng.choice(rows, 500, replace=False)
    stream = table.take(pa.array(asked))
    counts = []
    for key, on in (("place", "l.place = r.place"), (("g", ("k",)), "l.g = r.g AND l.k = r.k")):
        path = tmp_path / f"{len(counts)}.rel"
        shuffled = table.take(pa.array(rng.permutation(rows)))
        with (
            ts.Relation.build(path, shuffled, key, 4096) as relation,
            ts.RelationJoin(relation, on, "4 MB", how="semi", cache="none", plan="single") as join,
        ):
            matched = sum(b.num_rows for b in (*join.push(stream), *join.flush()))
            assert matched == len(asked)
            counts.append(join.metrics().blocks_read / relation.blocks)
    assert counts[1] <= counts[0] * 1.05


def test_null_in_an_equality_column_is_refused(tmp_path: Path) -> None:
    table = pa.table({"g": ["a", None, None], "k": [1, 2, 3]})
    says = "NULL is in g in 2 rows, which is compared by equality"
    with pytest.raises(RelationError, match=says):
        ts.Relation.build(tmp_path / "r.rel", table, ("g", ("k",)))
    with ts.Relation.build(tmp_path / "r.rel", table.slice(0, 1), ("g", ("k",))) as relation:
        with pytest.raises(RelationError, match=f"{says}.*nothing was changed"):
            relation.insert(table)
        assert relation.rows == 1


@pytest.mark.parametrize(
    ("key", "says"),
    [
        (("g", "h", "k"), r"in parentheses: \('region', \('day',\)\)"),
        (("g", ("k", "e", "h")), "in parentheses"),
        (("g", ()), "in parentheses"),
        ((("k",), "g"), "in parentheses"),
        (("g", ("g",)), "got 'g' twice"),
    ],
)
def test_keys_that_are_none(tmp_path: Path, key: Any, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        ts.Relation.build(tmp_path / "r.rel", tables(1, 9, 2)[0], key)


def test_the_first_column_must_be_compared(tmp_path: Path) -> None:
    path = tmp_path / "r.rel"
    with ts.Relation.build(
        path, tables(1, 9, 2)[0], ("g", ("k", "e")), keep_empty=True
    ) as relation:
        for on in ("l.x BETWEEN r.k AND r.e", "l.g < r.g AND l.x = r.k"):
            with pytest.raises(PredicateError, match="sorted by g, .*must compare r.g itself"):
                ts.RelationJoin(relation, on)


def test_a_join_goes_on_after_the_relation_was_built_again(tmp_path: Path) -> None:
    """Another build learns other codes: rows pushed later are asked by those."""
    path, key = tmp_path / "r.rel", ("g", ("k",))
    on = "l.g = r.g AND abs(l.x - r.k) <= 2"
    old, stream = tables(3, 200, 5)
    new, _ = tables(4, 900, 60)
    with (
        ts.Relation.build(path, old, key, 4096) as relation,
        ts.RelationJoin(relation, on, "1 MB") as join,
    ):
        assert rows_of([*join.push(stream), *join.flush()]) == truth(stream, old, on, "inner")
        ts.Relation.build(path, new, key, 4096, replace=True).close()
        assert relation.refresh()
        assert rows_of([*join.push(stream), *join.flush()]) == truth(stream, new, on, "inner")
        ts.Relation.build(path, new, ("h", ("k",)), 4096, replace=True).close()
        assert relation.refresh()
        with pytest.raises(RelationError, match="built again with other columns, another key"):
            list(itertools.chain(join.push(stream), join.flush()))
