"""The house itself: what the Makefile offers, what is pinned, what no file may contain."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERBS = [
    *("help", "setup", "demo", "test", "test-slow"),
    *("lint", "types", "bench", "docs", "clean"),
]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
TEXTS = [
    *SOURCES,
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    *(path for path in ROOT.glob("tests/**/*.py") if path != Path(__file__)),
    *(path for path in ROOT.glob("scripts/**/*") if path.is_file()),
    *(ROOT / name for name in ("pyproject.toml", "constraints.txt", "Makefile", ".ci/run")),
]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().split()
    return {canonical(name): version for name, version in (line.split("==") for line in lines)}


def requirements(*extras: str) -> dict[str, str]:
    wanted = [*PROJECT["dependencies"]]
    for extra in extras:
        wanted += PROJECT["optional-dependencies"][extra]
    found = {}
    for text in wanted:
        bare = text.partition(";")[0]
        name, bounds = re.fullmatch(r"([\w.-]+)(?:\[\w+\])?(.*)", bare).groups()
        found[canonical(name)] = bounds
    found.pop("thetastream", None)
    return found


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def test_help_lists_every_verb() -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    assert [verb for verb, _ in lines] == VERBS
    assert all(text for _, text in lines)


def test_what_is_tested_is_pinned() -> None:
    found = pins()
    for name, bounds in requirements("bench", "spark", "connect", "opencl", "dev").items():
        limits = re.fullmatch(r">=([\d.]+)(?:,<(\d+))?", bounds)
        assert limits, f"{name} has other bounds than a lower and perhaps an upper one: {bounds}"
        assert numbers(found[name]) >= numbers(limits[1])
        assert limits[2] is None or numbers(found[name]) < numbers(limits[2])


def test_constraints_are_names_and_versions() -> None:
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line)


def test_the_core_needs_only_what_the_design_says() -> None:
    assert set(requirements()) == {"numpy", "numba", "pyarrow", "sqlglot", "typer", "rich"}
    assert set(PROJECT["optional-dependencies"]) == {
        *("spark", "connect", "dashboard", "bench", "opencl", "dev"),
    }


@pytest.mark.parametrize("version", ["11", "16", "17", "25"])
def test_java_is_17_or_later(tmp_path: Path, version: str) -> None:
    (tmp_path / "scripts").mkdir()  # a copy, so that no Java in .venv is found
    script = Path(shutil.copy(ROOT / "scripts/find-java", tmp_path / "scripts"))
    java = tmp_path / "java"
    java.write_text(
        "#!/bin/sh\n"
        "echo ' java.home = found here'\n"
        f"echo ' java.specification.version = {version}'\n"
    )
    java.chmod(0o755)
    done = subprocess.run(
        [script],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    if int(version) >= 17:
        assert done.stdout == "found here\n"
    else:
        assert done.returncode == 1
        assert "needs Java 17 or later" in done.stderr


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_names_a_machine_or_a_registry(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"(?<![\w.$])/(?:home|root|work|tmp|Users|mnt)/", text)
    assert not re.search(r"index-url|trusted-host|find-links", text)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_modules_are_nouns_of_the_domain(path: Path) -> None:
    assert path.stem not in {"utils", "util", "common", "helpers", "core", "misc"}
    assert not re.search(r"_(old|new|v\d+)$", path.stem)
