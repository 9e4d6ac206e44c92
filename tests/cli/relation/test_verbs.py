"""``thetastream relation``: built, joined, changed and checked from files, as by a plain loop."""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import time
from collections import Counter
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import thetastream as ts
from thetastream.cli import relation
from thetastream.cli.files import InputFile
from thetastream.cli.relation import build as relation_build
from thetastream.cli.relation import calibrate as relation_calibrate
from thetastream.cli.relation import change as relation_change
from thetastream.cli.relation import join as relation_join

from ...processes import started
from .. import tables
from ..tables import save

VERBS = (
    *("build", "join", "info", "diff", "check", "insert", "update", "delete", "compact"),
    "calibrate",
)
PARTS = [{"part": i * 7 % 500, "name": f"part {i}", "price": i / 4} for i in range(800)]
SALES = [{"sale": i, "part": i * 13 % 600} for i in range(200)]
TARIFFS = [{"lo": i * 10, "hi": i * 10 + i % 20, "tariff": i} for i in range(400)]


def load(path: Path) -> list[dict[str, Any]]:
    """Rows of a file; CSV has no NULL text, so that it is read as an empty one."""
    rows = tables.load(path)
    return [{name: None if value == "" else value for name, value in row.items()} for row in rows]


def bag(rows: list[dict[str, Any]]) -> Counter[Any]:
    return Counter(tuple(sorted(row.items(), key=lambda item: item[0])) for row in rows)


def matched(how: str) -> list[dict[str, Any]]:
    """Sales × parts by a plain loop."""
    found: list[dict[str, Any]] = []
    for sale in SALES:
        partners = [part for part in PARTS if part["part"] == sale["part"]]
        if how in ("inner", "left"):
            found += [
                {**sale, "part_right": p["part"], "name": p["name"], "price": p["price"]}
                for p in partners
            ]
        if how == "left" and not partners:
            found.append({**sale, "part_right": None, "name": None, "price": None})
        if (how == "semi" and partners) or (how == "anti" and not partners):
            found.append(sale)
    return found


@pytest.fixture
def parts(command, tmp_path: Path) -> str:
    source, out = save(tmp_path / "parts.parquet", PARTS), str(tmp_path / "parts.rel")
    command("relation", "build", source, out, "--key", "part", "--block-bytes", "4096")
    return out


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".arrow"])
def test_build_info_and_check(command, tmp_path: Path, ending: str) -> None:
    (tmp_path / "more").mkdir()
    sources = [
        save(tmp_path / f"a{ending}", PARTS[:300]),
        save(tmp_path / f"b{ending}", PARTS[300:500]),
    ]
    save(tmp_path / f"more/c{ending}", PARTS[500:])
    out = tmp_path / "parts.rel"
    result = command(
        *("relation", "build", *sources, str(tmp_path / "more"), str(out), "--key", "part"),
        *("--block-bytes", "4096", "--fill", "0.5"),
    )
    assert result.stdout == ""
    assert "built in" in result.stderr
    told = json.loads(command("relation", "info", str(out), "--json").stdout)
    assert (told["key"], told["rows"], told["null_keys"]) == (["part"], 800, 0)
    assert (told["block_bytes"], told["fill"]) == (4096, 0.5)
    assert told["columns"] == {"part": "int64", "name": "string", "price": "double"}
    assert told["blocks"] * 4096 <= told["nbytes"]
    shown = command("relation", "info", str(out))
    assert re.search(r"rows +800\b", shown.stdout)
    assert "filled to 50%" in shown.stdout
    checked = command("relation", "check", str(out))
    assert checked.stdout.startswith(f"sound: 800 rows in {told['blocks']} blocks")
    with ts.Relation.open(out) as made:
        assert bag(made.to_table().to_pylist()) == bag(PARTS)


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".jsonl", ".arrow"])
@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_join(command, tmp_path: Path, parts: str, ending: str, how: str) -> None:
    output = tmp_path / f"out{ending}"
    result = command(
        *("relation", "join", save(tmp_path / f"sales{ending}", SALES), parts),
        *("--on", "l.part = r.part", "--how", how, "--memory", "2 MB", "--batch-rows", "64"),
        *("--output", str(output)),
    )
    wanted = matched(how)
    assert wanted
    assert bag(load(output)) == bag(wanted)
    assert re.search(rf"rows out +{len(wanted):,} ", result.stderr)
    assert re.search(r"rows in +200\b", result.stderr)
    assert re.search(r"memory +[\d.]+ [kM]B +at most, of 2.0 MB", result.stderr)


def test_points_in_intervals(command, tmp_path: Path) -> None:
    rel, output = str(tmp_path / "tariffs.rel"), tmp_path / "out.csv"
    source = save(tmp_path / "tariffs.csv", TARIFFS)
    built = command("relation", "build", source, rel, "--key", "lo,hi", "--block-bytes", "4096")
    assert re.search(r"key +interval lo, hi", built.stderr)
    stream = [{"x": x} for x in range(-5, 4300, 7)]
    result = command(
        *("relation", "join", save(tmp_path / "x.csv", stream), rel, "--columns", "x,tariff"),
        *("--on", "l.x BETWEEN r.lo AND r.hi", "-o", str(output), "--explain"),
    )
    assert "r.hi" in result.stderr
    wanted = [
        (s["x"], t["tariff"]) for s in stream for t in TARIFFS if t["lo"] <= s["x"] <= t["hi"]
    ]
    assert Counter((row["x"], row["tariff"]) for row in load(output)) == Counter(wanted)


def test_a_preview_without_output(command, tmp_path: Path, parts: str) -> None:
    sales = save(tmp_path / "sales.csv", SALES)
    result = command("relation", "join", sales, parts, "--on", "l.part = r.part", "--limit", "3")
    assert "part_right" in result.stdout
    assert len(re.findall(r"^ *\d+ ", result.stdout, re.MULTILINE)) == 3


def test_brackets_are_no_markup(command, tmp_path: Path) -> None:
    table = pa.table({"t": pa.array([1, 2], pa.timestamp("us")), "s": ["[bold]", "[/]"]})
    source, rel = save(tmp_path / "[b].arrow", table), str(tmp_path / "[b].rel")
    command("relation", "build", source, rel, "--key", "t")
    assert "t timestamp[us], s string" in command("relation", "info", rel).stdout
    result = command("relation", "join", source, rel, "--on", "l.t = r.t")
    assert result.stdout.count("[bold]") == 2
    assert result.stdout.count("[/]") == 2


def test_no_match_is_an_empty_file(command, tmp_path: Path, parts: str) -> None:
    sales, output = save(tmp_path / "sales.csv", SALES), tmp_path / "out.parquet"
    command(
        *("relation", "join", sales, parts, "--on", "l.part + 1000 = r.part", "-o", str(output)),
    )
    assert load(output) == []
    assert InputFile(output, 1).schema.names == ["sale", "part", "part_right", "name", "price"]


def test_what_exists_is_kept(command, tmp_path: Path, parts: str) -> None:
    output = tmp_path / "out.csv"
    output.write_text("precious")
    sales = save(tmp_path / "sales.csv", SALES)
    join = ("relation", "join", sales, parts, "--on", "l.part = r.part", "-o", str(output))
    build = ("relation", "build", sales, parts, "--key", "part")
    for verb, flag in ((join, "--force"), (build, "--replace")):
        result = command(*verb, code=2)
        assert f"exists; pass {flag} to replace it" in result.stderr
    assert output.read_text() == "precious"
    assert json.loads(command("relation", "info", parts, "--json").stdout)["rows"] == 800
    command(*join, "--force")
    assert len(load(output)) == len(matched("inner"))
    command(*build, "--force")
    assert json.loads(command("relation", "info", parts, "--json").stdout)["rows"] == 200


def test_changes(command, tmp_path: Path, parts: str) -> None:
    def apply(verb: str, rows: list[dict[str, Any]], *options: str) -> str:
        source = save(tmp_path / "change.csv", rows)
        result = command("relation", verb, parts, source, *options)
        return str(result.stdout)

    with ts.Relation.open(parts) as made:
        first = made.version
    assert apply("insert", [{"part": 1000, "name": "x", "price": 1}]) == "inserted 1 rows\n"
    assert apply("update", [{"part": 1000, "name": "y", "price": 2}]) == (
        "updated 1 rows: 0 inserted, 1 replaced, 0 removed\n"
    )
    apply("update", [{"part": 1001, "name": "z", "price": 3}], "--upsert")
    gone = [{"part": part} for part in range(500)]
    assert apply("delete", gone) == f"deleted {len(PARTS)} rows\n"
    apply("insert", [{"part": 1002, "name": "w", "price": 8}])
    result = command("relation", "delete", parts, "--where", "r.price > 7")
    assert result.stdout == "deleted 1 rows\n"
    command("relation", "delete", parts, code=2)
    left = [{"part": 1000, "name": "y", "price": 2.0}, {"part": 1001, "name": "z", "price": 3.0}]
    for _ in range(2):
        with ts.Relation.open(parts) as made:
            assert bag(made.to_table().to_pylist()) == bag(left)
            assert made.version > first
        result = command("relation", "compact", parts)
        assert result.stdout.startswith("compacted: ")
        command("relation", "check", parts)


def test_a_value_that_does_not_fit_changes_nothing(command, tmp_path: Path, parts: str) -> None:
    source = save(tmp_path / "new.csv", [{"part": "seven", "name": "x", "price": 1}])
    result = command("relation", "insert", parts, source, code=2)
    assert "'part'" in result.stderr
    assert "string, that of the relation int64" in result.stderr
    assert json.loads(command("relation", "info", parts, "--json").stdout)["rows"] == 800


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--on", "l.part = r.gone"], "gone"),
        (["--on", "l.part ="], "error"),
        (["--on", "l.part = r.name"], "error"),
        (["--on", "l.part = r.price"], "key"),
        (["--on", "l.part = r.part", "--how", "cross"], "inner"),
        (["--on", "l.part = r.part", "--how", "full"], "inner"),
        (["--on", "l.part = r.part", "--memory", "much"], "64 MB"),
        (["--on", "l.part = r.part", "--memory", "1 kB"], "kB"),
        (["--on", "l.part = r.part", "--deadline", "soon"], "soon"),
        (["--on", "l.part = r.part", "--columns", "gone"], "gone"),
        (["--on", "l.part = r.part", "--format", "xml"], "xml"),
        (["--on", "l.part = r.part", "-o", "out.xyz"], "xyz"),
    ],
)
def test_wrong_input_is_a_message_and_code_2(
    command, tmp_path: Path, parts: str, arguments: list[str], message: str
) -> None:
    sales = save(tmp_path / "sales.csv", SALES)
    result = command("relation", "join", sales, parts, *arguments, code=2)
    assert result.stdout == ""
    assert message in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--key", "gone"], "gone"),
        (["--key", "part,name,price"], "one key column, or two"),
        (["--key", ""], "one key column, or two"),
        (["--key", "part", "--block-bytes", "1000"], "1000"),
        (["--key", "part", "--fill", "2"], "2"),
        (["--key", "part", "--memory", "much"], "64 MB"),
    ],
)
def test_a_build_that_cannot_be(
    command, tmp_path: Path, arguments: list[str], message: str
) -> None:
    source = save(tmp_path / "parts.csv", PARTS)
    result = command("relation", "build", source, str(tmp_path / "parts.rel"), *arguments, code=2)
    assert message in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts.csv"]


@pytest.mark.parametrize("verb", ["info", "check", "compact", "insert", "update", "delete", "join"])
def test_there_is_no_such_relation(command, tmp_path: Path, verb: str) -> None:
    gone = str(tmp_path / "gone.rel")
    sales = save(tmp_path / "sales.csv", SALES)
    more = {"insert": [gone, sales], "update": [gone, sales], "delete": [gone, sales]}
    more["join"] = [sales, gone, "--on", "l.part = r.part"]
    result = command("relation", verb, *more.get(verb, [gone]), code=2)
    assert result.stderr.startswith("error: ")
    assert "gone.rel" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_damage_is_found(command, tmp_path: Path, parts: str) -> None:
    [blocks] = Path(parts).glob("blocks-*")
    held = bytearray(blocks.read_bytes())
    held[4796] ^= 4
    blocks.write_bytes(held)
    sales = save(tmp_path / "sales.csv", SALES)
    join = ("relation", "join", sales, parts, "--on", "l.part = r.part", "--how", "left")
    for arguments in (("relation", "check", parts), (*join, "-o", str(tmp_path / "out.csv"))):
        result = command(*arguments, code=2)
        assert "block 1" in result.stderr
    assert not (tmp_path / "out.csv").exists()


def run(*arguments: str, **options: Any) -> AbstractContextManager[subprocess.Popen[bytes]]:
    return started("relation", *arguments, bufsize=0, **options)


def test_rows_pass_through_pipes_while_the_stream_goes_on(parts: str) -> None:
    """Answers come because of the deadline: nothing more comes, and the stream has not ended."""
    arguments = (
        *("join", "-", parts, "--on", "l.part = r.part", "--columns", "sale,name"),
        *("--deadline", "200 ms", "--output", "-", "--format", "jsonl"),
    )
    with run(*arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        for sale, part in ((1, 14), (2, 350), (3, 9999)):
            new = [{"part": 9999, "name": "new", "price": 1.0}] if part == 9999 else []
            if new:  # a change by another process, while the join runs
                with ts.Relation.open(parts) as relation:
                    relation.insert(pa.Table.from_pylist(new))
            process.stdin.write(b'{"sale": %d, "part": %d}\n' % (sale, part))
            wanted = [{"sale": sale, "name": p["name"]} for p in PARTS + new if p["part"] == part]
            found = []
            for _ in wanted:
                assert select.select([process.stdout], [], [], 120)[0]
                found.append(json.loads(process.stdout.readline()))
            assert bag(found) == bag(wanted)
        process.stdin.close()
        assert process.stdout.read() == b""
        summary = process.stderr.read().decode()
        assert process.wait(60) == 0, summary
    assert "deadlines met" in summary


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert b"stopped by Ctrl-C" in errors
    assert b"Traceback" not in errors


def test_ctrl_c_during_a_join_leaves_no_file(tmp_path: Path, parts: str) -> None:
    """A stream without end: a pipe that nobody closes."""
    reader, writer = os.pipe()
    with open(reader, "rb") as source, open(writer, "wb", buffering=0) as sink:
        output = str(tmp_path / "out.parquet")
        options = ("--on", "l.part = r.part", "--deadline", "50 ms", "-o", output)
        with run("join", "-", parts, *options, stdin=source) as process:
            sink.write(b"part\n" + b"7\n" * 1000)
            while not list(tmp_path.glob(".out.*")):  # the hidden file: rows have come out
                assert process.poll() is None
                time.sleep(0.01)
            stop(process)
    assert {path.name for path in tmp_path.iterdir()} == {"parts.parquet", "parts.rel"}


def test_ctrl_c_during_a_build_leaves_the_old_relation(tmp_path: Path, parts: str) -> None:
    before = sorted(path.name for path in Path(parts).iterdir())
    numbers = np.random.default_rng(1).permutation(3_000_000)
    source = save(tmp_path / "many.parquet", pa.table({"part": numbers, "more": numbers}))
    build = ("build", source, parts, "--key", "part", "--memory", "16 MB", "--force")
    with run(*build) as process:
        while sorted(path.name for path in Path(parts).rglob("*")) == before:
            assert process.poll() is None
            time.sleep(0.005)
        stop(process)
    assert sorted(path.name for path in Path(parts).iterdir()) == before
    with ts.Relation.open(parts) as made:
        made.check()
        assert made.rows == 800


def test_calibrate(command, tmp_path: Path, parts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thetastream.relation.disk.calibrate._TEMPORARY", 1 << 20)
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    for place in ([parts], []):
        result = command("relation", "calibrate", *place, "--seconds", "0.01", "--json")
        found = json.loads(result.stdout)
        assert found["seek"] >= 0
        assert found["transfer"] > 0
        assert found["block_bytes"] == (4096 if place else 8192)
    text = command("relation", "calibrate", parts, "--seconds", "0.01", "--cached").stdout
    assert "through the page cache" in text
    assert sorted(tmp_path.rglob("*")) == before


def test_calibrate_shows_simulated_devices(command) -> None:
    result = command("relation", "calibrate", "--profile", "disk", "--block-bytes", "4096")
    assert "8.5000 ms per sequence" in result.stdout
    assert "per block of 4,096 bytes" in result.stdout
    assert "nothing was measured" in result.stdout
    unknown = command("relation", "calibrate", "--profile", "dsik", code=2)
    assert "Did you mean 'disk'?" in unknown.stderr


def test_a_place_that_is_not_there(command, tmp_path: Path) -> None:
    result = command("relation", "calibrate", str(tmp_path / "gone"), code=2)
    assert "gone" in result.stderr


def test_every_verb_has_help(command) -> None:
    listed = command("relation", "--help")
    for verb in VERBS:
        assert f" {verb} " in listed.stdout
        shown = command("relation", verb, "--help")
        assert "Usage:" in shown.stdout


EPILOGS = (
    *(relation.EPILOG, relation_build.EPILOG, relation_join.EPILOG, relation_calibrate.EPILOG),
    *(relation_change.INSERT_EPILOG, relation_change.UPDATE_EPILOG, relation_change.DELETE_EPILOG),
)


def examples() -> list[list[str]]:
    """The commands that help shows, as words, but for those that read a pipe."""
    texts = [" ".join(part.split()) for epilog in EPILOGS for part in epilog.split("\n\n")]
    return [
        shlex.split(text.removeprefix("Examples: ").removeprefix("Example: "))[1:]
        for text in texts
        if "thetastream " in text and " join - " not in text
    ]


def test_the_examples_of_help_work(
    command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("parts.parquet", "prices.csv"):
        save(tmp_path / name, PARTS[:500])  # one row per key
    save(tmp_path / "new-parts.csv", [row | {"part": row["part"] + 1000} for row in PARTS[:500]])
    save(tmp_path / "gone.csv", [{"part": 7}])
    save(tmp_path / "sales.parquet", SALES)
    save(tmp_path / "calls.csv", [{"number": n} for n in range(50)])
    for name in ("tariffs-1.csv", "tariffs-2.csv"):
        save(tmp_path / name, TARIFFS)
    (tmp_path / "customers").mkdir()
    save(tmp_path / "customers/1.parquet", [{"id": 1}, {"id": 2}])
    monkeypatch.setattr("thetastream.relation.disk.calibrate._TEMPORARY", 1 << 20)
    shown = sorted(examples(), key=lambda words: words[1] != "build")
    assert len(shown) >= 10
    for words in shown:
        forced = ["--force"] if words[1] in ("build", "join") and "--force" not in words else []
        command(*words, *forced)


def test_unique_keys_open_ends_and_columns_in_front(command, tmp_path: Path) -> None:
    rows = [
        {"region": "EU", "since": 1, "until": 9},
        {"region": "EU", "since": 5, "until": None},
        {"region": "US", "since": 1, "until": None},
    ]
    source, out = save(tmp_path / "rates.csv", rows), str(tmp_path / "rates.rel")
    build = ("relation", "build", source, out, "--key", "region,(since,until)")
    assert "open_ends=True" in command(*build, code=2).output
    command(*build, "--open-ends", "--unique", "region,since")
    assert "pass --replace" in command(*build, code=2).output
    known = json.loads(command("relation", "info", out, "--json").stdout)
    assert known["key"] == ["region", ["since", "until"]]
    assert (known["unique"], known["open_ends"]) == (["region", "since"], True)
    assert known["intervals"] == {"rows": 3, "open": 2, "overlapping": 1, "empty": 0}
    quick = command("relation", "info", out, "--json", "--quick").stdout
    assert "intervals" not in json.loads(quick)
    shown = " ".join(command("relation", "info", out).stdout.split())
    assert "2 open, 1 overlap one before them, 0 empty" in shown
    fresh = save(tmp_path / "fresh.csv", [{"region": "EU", "since": 1, "until": 4}])
    dry = command("relation", "update", out, fresh, "--dry-run").stdout
    assert dry == ("dry run, nothing was changed; it would be: 0 inserted, 1 replaced, 0 removed\n")
    copy = str(tmp_path / "copy.rel")
    shutil.copytree(out, copy)
    assert "0 inserted, 0 replaced, 0 removed, 3" in command("relation", "diff", copy, out).stdout
    command("relation", "update", out, fresh)
    found = command("relation", "diff", copy, out).stdout
    assert "rows: 0 inserted, 1 replaced, 0 removed, 2 unchanged" in found
    assert "- {'region': 'EU', 'since': 1, 'until': 9}" in found
    assert "+ {'region': 'EU', 'since': 1, 'until': 4}" in found


def test_intervals_that_end_before_they_begin(command, tmp_path: Path) -> None:
    rows = [{"lo": 1, "hi": 5}, {"lo": 9, "hi": 7}, {"lo": 8, "hi": 3}]
    source, out = save(tmp_path / "rates.csv", rows), str(tmp_path / "rates.rel")
    build = ("relation", "build", source, out, "--key", "lo,hi")
    assert (
        "2 intervals end before they begin, such as lo = 9, hi = 7"
        in command(*build, code=2).output
    )
    assert not Path(out).exists()
    command(*build, "--keep-empty")
    shown = " ".join(command("relation", "info", out).stdout.split())
    assert "rows 3; 2 intervals are empty, lo above hi" in shown
    assert "0 open, 0 overlap one before them, 2 empty (lo above hi)" in shown


def test_a_dry_run_of_every_change(command, tmp_path: Path, parts: str) -> None:
    fresh = save(tmp_path / "fresh.csv", [{"part": 7, "name": "x", "price": 1.0}])
    there = sum(part["part"] == 7 for part in PARTS)
    before = command("relation", "info", parts, "--json").stdout
    changes = {
        ("insert", parts, fresh): "1 inserted, 0 replaced, 0 removed",
        ("update", parts, fresh, "--replace-key"): f"0 inserted, 1 replaced, {there - 1} removed",
        ("delete", parts, fresh): f"0 inserted, 0 replaced, {there} removed",
        ("delete", parts, "--where", "r.part = 7"): f"0 inserted, 0 replaced, {there} removed",
    }
    assert there > 1
    for words, counts in changes.items():
        said = command("relation", *words, "--dry-run").stdout
        assert said == f"dry run, nothing was changed; it would be: {counts}\n"
    assert command("relation", "info", parts, "--json").stdout == before
