"""``thetastream join``: files in, a file or a preview out, the answer of a plain nested loop."""

from __future__ import annotations

import re
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from thetastream.cli.files import InputFile

from ..processes import started
from .tables import load, save

ON = "abs(l.x - r.x) <= 2 AND l.s = r.s"


def rows(seed: int, count: int, disorder: int = 0) -> list[dict[str, Any]]:
    random = np.random.default_rng(seed)
    times = np.arange(count) * 10 + random.integers(-disorder, disorder + 1, count)
    return [
        {"t": int(times[i]), "x": int(random.integers(50)), "s": "abc"[random.integers(3)], "id": i}
        for i in range(count)
    ]


def same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return abs(left["x"] - right["x"]) <= 2 and left["s"] == right["s"]


def matched(left: list[Any], right: list[Any], holds: Callable[[Any, Any], bool]) -> Counter[Any]:
    return Counter((a["id"], b["id"]) for a in left for b in right if holds(a, b))


def pairs(found: list[dict[str, Any]]) -> Counter[tuple[Any, Any]]:
    return Counter((row["id"], row["id_right"]) for row in found)


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".jsonl", ".arrow"])
@pytest.mark.parametrize("how", ["inner", "left"])
def test_a_time_window(command, tmp_path: Path, ending: str, how: str) -> None:
    left, right = rows(1, 400, disorder=20), rows(2, 300, disorder=20)
    output = tmp_path / f"out{ending}"
    result = command(
        *("join", save(tmp_path / f"l{ending}", left)),
        save(tmp_path / f"r{ending}", right),
        *("--on", ON, "--window", "100", "--time", "t", "--lateness", "40", "--how", how),
        *("--batch-rows", "64", "--output", str(output)),
    )
    wanted = matched(left, right, lambda a, b: abs(a["t"] - b["t"]) <= 100 and same(a, b))
    assert wanted
    if how == "left":
        found = {a for a, _ in wanted}
        wanted += Counter((a["id"], None) for a in left if a["id"] not in found)
    assert pairs(load(output)) == wanted
    assert re.search(rf"rows out +{sum(wanted.values()):,} ", result.stderr)


def test_a_count_window_by_order(command, tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    ranks = random.permutation(500)
    left, right = rows(1, 300), rows(2, 200)
    for row, rank in zip(left, np.sort(ranks[:300]), strict=True):
        row["rank"] = int(rank)
    for row, rank in zip(right, np.sort(ranks[300:]), strict=True):
        row["rank"] = int(rank)
    wanted: Counter[tuple[Any, Any]] = Counter()
    for a in left:
        for b in right:
            later, earlier, others = (b, a, left) if a["rank"] < b["rank"] else (a, b, right)
            before = sum(row["rank"] < later["rank"] for row in others)
            if earlier["id"] >= before - 20 and same(a, b):
                wanted[a["id"], b["id"]] += 1
    files = (
        save(tmp_path / "l.parquet", left),
        save(tmp_path / "r.parquet", right),
    )
    for batch_rows in ("7", "1000"):
        output = tmp_path / f"out{batch_rows}.arrow"
        command(
            *("join", *files, "--on", ON, "--count", "20", "--order", "rank"),
            *("--batch-rows", batch_rows, "--columns", "id,id_right", "-o", str(output)),
        )
        assert pairs(load(output)) == wanted
        assert InputFile(output, 1).schema.names == ["id", "id_right"]


def test_one_file_joins_itself(command, tmp_path: Path) -> None:
    stream = rows(1, 60)
    output = tmp_path / "out.csv"
    command(
        *("join", save(tmp_path / "s.csv", stream)),
        *("--on", ON, "--count", "1000", "-o", str(output)),
    )
    wanted = matched(stream, stream, lambda a, b: a["id"] != b["id"] and same(a, b))
    assert pairs(load(output)) == wanted


@pytest.mark.parametrize("threads", ["0", "2"])
@pytest.mark.parametrize("window", [["--window", "100", "--time", "t"], ["--count", "30"]])
def test_row_by_row(command, tmp_path: Path, window: list[str], threads: str) -> None:
    files = [save(tmp_path / f"{side}.parquet", rows(side, 300)) for side in (1, 2)]
    found = []
    for number, extra in enumerate(([], ["--parallel", threads])):
        output = tmp_path / f"out{number}.arrow"
        given = ["--on", ON, *window, "--batch-rows", "16", "--tactic", "pim-tree", *extra]
        command("join", *files, *given, "-o", str(output))
        found.append(pairs(load(output)))
    assert found[0] == found[1]
    assert found[0]


def test_row_by_row_is_for_inner_joins_of_streams(command, files: tuple[str, str]) -> None:
    given = ["join", *files, "--on", "l.x = r.x", "--parallel", "2"]
    failed = command(*given, "--count", "9", "--how", "left", "--collect", "4", code=2)
    assert "--how and --collect cannot be combined with --parallel" in failed.stderr
    assert "--parallel belongs to joins of streams" in command(*given, code=2).stderr


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    table = pa.table({"x": [1, 2, 3], "s": ["a", "b", "c"], "id": [0, 1, 2]})
    return save(tmp_path / "l.parquet", table), save(tmp_path / "r.parquet", table)


def test_a_preview_without_output(command, files: tuple[str, str]) -> None:
    result = command("join", *files, "--on", "l.x <= r.x", "--count", "10", "--limit", "2")
    assert "id_right" in result.stdout
    shown = [line.split() for line in result.stdout.splitlines() if line.strip()[:1].isdigit()]
    assert len(shown) == 2
    assert all(int(row[0]) <= int(row[3]) for row in shown)
    assert "matches" in result.stderr


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_no_match_is_an_empty_file(
    command, tmp_path: Path, files: tuple[str, str], ending: str
) -> None:
    output = tmp_path / f"out{ending}"
    command("join", *files, "--on", "l.x > r.x + 10", "--count", "10", "-o", str(output))
    assert load(output) == []
    assert InputFile(output, 1).schema.names == ["x", "s", "id", "x_right", "s_right", "id_right"]


def test_an_existing_output_is_kept(command, tmp_path: Path, files: tuple[str, str]) -> None:
    output = tmp_path / "out.csv"
    output.write_text("precious")
    arguments = ("join", *files, "--on", "l.x = r.x", "--count", "10", "-o", str(output))
    result = command(*arguments, code=2)
    assert "--force" in result.stderr
    assert output.read_text() == "precious"
    command(*arguments, "--force")
    assert len(load(output)) == 3


@pytest.mark.parametrize(
    "options",
    [
        ["--tactic", "pim-tree(depth=1)"],
        ["--tactic", "panjoin/bi-sort(subwindows=2)", "--workers", "2"],
        ["--tactic", "spo-join(background=true, elements=2)", "--collect", "7"],
        ["--collect", "100", "--collect-time", "1 s"],
    ],
    ids=str,
)
def test_the_answer_does_not_depend_on_how(command, tmp_path: Path, options: list[str]) -> None:
    left, right = rows(3, 200), rows(4, 200)
    output = tmp_path / "out.parquet"
    command(
        *("join", save(tmp_path / "l.parquet", left)),
        save(tmp_path / "r.parquet", right),
        *("--on", "abs(l.x - r.x) <= 2 AND l.id < r.id", "--window", "100", "--time", "t"),
        *("--batch-rows", "32", "--output", str(output), *options),
    )
    wanted = matched(
        left,
        right,
        lambda a, b: (
            abs(a["x"] - b["x"]) <= 2 and a["id"] < b["id"] and abs(a["t"] - b["t"]) <= 100
        ),
    )
    assert wanted
    assert pairs(load(output)) == wanted


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--on", "l.x = r.gone", "--count", "5"], "gone"),
        (["--on", "l.x =", "--count", "5"], "error"),
        (["--on", "l.x = r.s", "--count", "5"], "error"),
        (["--on", "l.x = r.x", "--count", "0"], "at least 1"),
        (["--on", "l.x = r.x", "--time", "t"], "--time belongs to a window"),
        (["--on", "l.x = r.x", "--collect", "5"], "--collect belongs to joins of streams"),
        (["--on", "l.x = r.x", "l.x = r.x"], "once"),
        ([], "the condition is missing"),
        (["--on", "l.x = r.x", "--count", "5", "--how", "cross"], "inner"),
        (["--on", "l.x = r.x", "--window", "5", "--time", "gone"], "gone"),
        (["--on", "l.x = r.x", "--count", "5", "--tactic", "gone"], "gone"),
        (["--on", "l.x = r.x", "--count", "5", "--tactic", "pim-tree(dept=3)"], "depth: int = -1"),
        (["--on", "l.x = r.x", "--count", "5", "--tactic", "pim-tree(depth=)"], "^"),
        (["--on", "l.x = r.x", "--count", "5", "--workers", "2"], "tactic='panjoin'"),
        (["--on", "l.x = r.x", "--count", "5", "--collect", "0"], "--collect"),
        (["--on", "l.x = r.x", "--count", "5", "--columns", "gone"], "gone"),
        (["--on", "l.x = r.x", "--count", "5", "--order", "gone"], "gone"),
        (["--on", "l.x = r.x", "--count", "5", "-o", "out.xyz"], "xyz"),
    ],
)
def test_wrong_input_is_a_message_and_code_2(
    command, files: tuple[str, str], arguments: list[str], message: str
) -> None:
    result = command("join", *files, *arguments, code=2)
    assert result.stdout == ""
    assert message in result.stderr


def test_a_missing_file(command) -> None:
    result = command("join", "gone.csv", "gone.csv", "--on", "l.x = r.x", "--count", "5", code=2)
    assert result.stderr == "error: cannot read 'gone.csv': there is no such file\n"


def test_ctrl_c_leaves_no_file_and_no_process(tmp_path: Path) -> None:
    """20 thousand million matches never end, so the command is stopped while it writes."""
    table = pa.table({"x": np.arange(200_000) % 10})
    left = save(tmp_path / "l.parquet", table)
    options = ("--on", "l.x <= r.x", "--count", "200000", "-o", str(tmp_path / "out.parquet"))
    with started("join", left, left, *options, text=True) as process:
        while not list(tmp_path.glob(".out.*")):  # the hidden file: the join is running
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "stopped by Ctrl-C" in errors
    assert [path.name for path in tmp_path.iterdir()] == ["l.parquet"]


def test_numbers_or_counts_instead_of_rows(command, files: tuple[str, str], tmp_path: Path) -> None:
    found = {}
    for give in ("pairs", "count"):
        output = tmp_path / f"{give}.csv"
        command(
            *("join", *files, "--on", "l.x < r.x", "--count", "9"),
            *("--give", give, "-o", str(output)),
        )
        found[give] = load(output)
    assert Counter((r["left"], r["right"]) for r in found["pairs"]) == Counter(
        [(0, 1), (0, 2), (1, 2)]
    )
    assert sum(r["matches"] for r in found["count"]) == 3
    result = command(
        "join", *files, "--on", "l.x < r.x", "--count", "9", "--give", "ranges", code=2
    )
    assert "use --give count or --give pairs" in " ".join(result.output.split())


# --- Tables -------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["inner", "left", "anti"])
def test_without_a_window_files_are_tables(command, tmp_path: Path, how: str) -> None:
    left, right = rows(1, 60), rows(2, 50)
    output = tmp_path / "out.jsonl"
    result = command(
        *("join", save(tmp_path / "l.parquet", left), save(tmp_path / "r.csv", right), ON),
        *("--how", how, "--threads", "2", "-o", str(output)),
    )
    found = load(output)
    wanted = matched(left, right, same)
    alone = {row["id"] for row in left} - {a for a, _ in wanted}
    if how == "anti":
        assert {row["id"] for row in found} == alone
    else:
        expected = wanted + Counter((a, None) for a in alone if how == "left")
        assert pairs(found) == expected
    assert "rows out" in result.stderr


def test_a_file_joins_itself_as_a_table(command, tmp_path: Path) -> None:
    data = rows(1, 30)
    output = tmp_path / "out.parquet"
    command("join", save(tmp_path / "l.csv", data), "--on", ON, "-o", str(output))
    assert pairs(load(output)) == matched(data, data, same)


def test_folders_of_files(command, tmp_path: Path) -> None:
    data = rows(3, 40)
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "_SUCCESS").write_text("")
    save(folder / "b.csv", data[25:])
    save(folder / "a.csv", data[:25])
    output = tmp_path / "out.jsonl"
    command("join", str(folder), save(tmp_path / "r.csv", data), ON, "-o", str(output))
    assert pairs(load(output)) == matched(data, data, same)
    save(folder / "c.jsonl", data)
    result = command("join", str(folder), str(tmp_path / "r.csv"), ON, code=2)
    assert "several formats: .csv, .jsonl" in result.stderr
    (folder / "c.jsonl").unlink()
    save(folder / "c.csv", [{"y": 1}])
    result = command("join", str(folder), str(tmp_path / "r.csv"), ON, code=2)
    assert "has other columns than" in result.stderr


@pytest.mark.parametrize("window", [(), ("--unbounded",)], ids=["tables", "streams"])
@pytest.mark.parametrize("form", ["csv", "jsonl", "arrows"])
def test_standard_input_and_output(tmp_path: Path, form: str, window: tuple[str, ...]) -> None:
    left, right = rows(1, 60), rows(2, 50)
    sent = Path(save(tmp_path / f"l.{form}", left))
    got = tmp_path / f"out.{form}"
    arguments = ["join", "-", save(tmp_path / "r.parquet", right), ON, "-o", "-", *window]
    with (
        sent.open("rb") as source,
        got.open("wb") as sink,
        started(*arguments, "--format", form, stdin=source, stdout=sink) as done,
    ):
        assert done.wait(timeout=300) == 0
    assert pairs(load(got)) == matched(left, right, same)


def test_only_one_side_is_standard_input(command) -> None:
    assert "only one side" in command("join", "-", "-", ON, code=2).stderr


def test_a_header_without_rows_is_explained(command, tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("x,s\n")
    other = save(tmp_path / "r.csv", rows(1, 3))
    empty = str(tmp_path / "l.csv")
    for arguments in (("join", empty, other, ON), ("explain", ON, "--left-schema", empty)):
        assert "has a header and no rows" in command(*arguments, code=2).stderr


def test_a_condition_in_the_place_of_a_file_is_explained(command, tmp_path: Path) -> None:
    errors = command("join", save(tmp_path / "l.csv", rows(1, 3)), ON, code=2).stderr
    assert "pass the condition with --on" in " ".join(errors.replace("│", " ").split())


@pytest.mark.parametrize("asked", ["--help", "--version"])
def test_a_full_disk_ends_help_with_a_message(asked: str) -> None:
    with Path("/dev/full").open("wb") as full, started(asked, stdout=full) as done:
        errors = done.stderr.read()
        assert done.wait(timeout=300) == 2
    assert b"No space left on device" in errors
    assert b"Traceback" not in errors


def test_standard_input_joins_itself(tmp_path: Path) -> None:
    data = rows(1, 30)
    got = tmp_path / "out.csv"
    with (
        Path(save(tmp_path / "l.csv", data)).open("rb") as source,
        got.open("wb") as sink,
        started("join", "-", "--on", ON, "-o", "-", stdin=source, stdout=sink) as done,
    ):
        assert done.wait(timeout=300) == 0
    assert pairs(load(got)) == matched(data, data, same)


def test_a_header_without_rows_on_standard_input_is_explained(tmp_path: Path) -> None:
    other = save(tmp_path / "r.csv", rows(1, 3))
    (tmp_path / "l.csv").write_text("x,s\n")
    with (
        (tmp_path / "l.csv").open("rb") as source,
        started("join", "-", other, ON, stdin=source) as done,
    ):
        errors = done.stderr.read()
        assert done.wait(timeout=300) == 2
    assert b"standard input has a header and no rows" in errors


def test_a_closed_pipe_ends_it_quietly(tmp_path: Path) -> None:
    data = save(tmp_path / "l.csv", [{"x": 1, "id": i} for i in range(700)])
    with started("join", data, data, "l.x = r.x", "-o", "-", stdout=-1) as done:
        assert done.stdout.readline() == b'"x","id","x_right","id_right"\n'
        done.stdout.close()
        errors = done.stderr.read()
        assert done.wait(timeout=300) == 0
    assert b"Traceback" not in errors
    assert b"Exception" not in errors


@pytest.mark.parametrize("output", [("-o", "-"), ("--limit", "2000")], ids=["rows", "preview"])
def test_a_full_disk_ends_it_with_a_message(tmp_path: Path, output: tuple[str, ...]) -> None:
    data = save(tmp_path / "l.csv", [{"x": 1, "id": i} for i in range(700)])
    arguments = ("join", data, data, "l.x = r.x", *output)
    with Path("/dev/full").open("wb") as full, started(*arguments, stdout=full) as done:
        errors = done.stderr.read()
        assert done.wait(timeout=300) == 2
    assert b"No space left on device" in errors
    assert b"Traceback" not in errors
