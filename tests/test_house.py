"""The house itself: its rooms and their rules, the Makefile, what is pinned and what is shipped."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from zipfile import ZipFile

import pytest

import thetastream
from thetastream.index.registry import names, structure

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LABORATORY = tomllib.loads((ROOT / "benchmarks/pyproject.toml").read_text())["project"]
VERBS = [
    *("help", "setup", "demo", "test", "test-all", "test-spark", "test-slow", "drills"),
    *("lint", "types", "bench", "wheel", "docs", "clean"),
]
LIBRARY = ROOT / "src/thetastream"
SOURCES = sorted((ROOT / "src").rglob("*.py"))
ROOMS = sorted(path.parent for path in LIBRARY.rglob("__init__.py"))
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
TEXTS = [
    *SOURCES,
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    *(path for path in ROOT.glob("tests/**/*.py") if path != Path(__file__)),
    *ROOT.glob("benchmarks/**/*.py"),
    *(path for path in ROOT.glob("scripts/**/*") if path.is_file()),
    *(ROOT / name for name in ("pyproject.toml", "constraints.txt", "Makefile", ".ci/run")),
    ROOT / "benchmarks/pyproject.toml",
]


WORDS = [  # that the engine uses; each needs an entry in the glossary
    *("bill", "binding", "box", "census", "collector", "copy", "domain", "emitter", "field"),
    *("fresh", "frontier", "home", "key", "layout", "lead", "lifetime", "lineage", "outside"),
    *("partition", "price", "probe", "question", "rank", "residual", "role", "ruler", "run"),
    *("settled", "side", "span", "stored", "streamed side", "structure", "subwindow", "tactic"),
    *("tactic family", "term", "token", "view", "window"),
]
HOMONYMS: dict[str, str] = {}  # class names that may occur twice, each with the reason why


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().split()
    return {canonical(name): version for name, version in (line.split("==") for line in lines)}


def requirements(*extras: str) -> dict[str, str]:
    wanted = [*PROJECT["dependencies"], *(LABORATORY["dependencies"] if extras else ())]
    for extra in extras:
        wanted += PROJECT["optional-dependencies"][extra]
    found = {}
    for text in wanted:
        bare = text.partition(";")[0]
        name, bounds = re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?(.*)", bare).groups()
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
    for name, bounds in requirements("datasets", "spark", "connect", "opencl", "dev").items():
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
        *("spark", "connect", "datasets", "opencl", "dev"),
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


def public_classes() -> dict[str, list[str]]:
    """The public classes of the library, by name, with the modules that define them."""
    found: dict[str, list[str]] = {}
    for path in SOURCES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(room(path))
    return found


def test_a_class_name_means_one_class() -> None:
    twice = {name: where for name, where in public_classes().items() if len(where) > 1}
    assert not {name: where for name, where in twice.items() if name not in HOMONYMS}
    assert all(HOMONYMS[name].strip() for name in HOMONYMS), "an exception says why"
    assert {*HOMONYMS} <= {*twice}, "an exception that is not needed"


# --- Rooms ---------------------------------------------------------------------------------------


def room(path: Path) -> str:
    return path.relative_to(LIBRARY).as_posix()


@pytest.mark.parametrize("path", ROOMS, ids=room)
def test_a_room_is_small_and_says_what_lives_there(path: Path) -> None:
    modules = [file for file in path.glob("*.py") if file.name != "__init__.py"]
    assert len(modules) <= (10 if path == LIBRARY else 15)
    text = ast.get_docstring(ast.parse((path / "__init__.py").read_text(encoding="utf-8"))) or ""
    assert len(text) > 30
    if "kernels" not in path.parts and len(modules) > 2 and path != LIBRARY:
        missing = [file.stem for file in modules if not re.search(rf"\b{file.stem}\b", text)]
        assert not [name for name in missing if name != "__main__"], "modules that it leaves out"


def test_every_room_is_in_the_architecture() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    rooms = [room(path) for path in ROOMS if "kernels" not in path.parts and path != LIBRARY]
    assert not [name for name in rooms if f"`{name}/`" not in text]


def test_importing_a_room_loads_no_compiler() -> None:
    rooms = [
        ".".join(("thetastream", *path.relative_to(LIBRARY).parts))
        for path in ROOMS
        if path.name != "cli" and "opencl" not in path.parts and "testing" not in path.parts
    ]
    code = f"import sys\nfor room in {rooms}: __import__(room)\n" + "print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    "path",
    [path for path in SOURCES if "kernels" in path.parts],
    ids=lambda path: room(path),
)
def test_kernels_import_no_class_of_the_library(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("thetastream"):
            parts = str(node.module).split(".")
            assert "kernels" in parts or parts[1] == "_jit", node.module


def test_tests_stand_where_what_they_test_stands() -> None:
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    known = {ROOT / "tests" / room(path) for path in ROOMS} | {ROOT / "tests/jit"}
    laboratory = ROOT / "tests/thetabench"
    strange = {f for f in folders if f not in known and laboratory not in (f, *f.parents)}
    assert not strange


def test_the_registry_names_what_is_there() -> None:
    for name in names():
        assert structure(name).name == name


# --- Documentation -------------------------------------------------------------------------------

_FILE = re.compile(
    r"`((?:[\w.-]+/)+(?:[\w-]+\.(?:py|md|csv|cl|toml))?)`"
)  # folders end in a stroke
_MODULE = re.compile(r"`(thetastream(?:\.\w+)+)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_is_named_that_does_not_exist(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    if page.name == "CHANGELOG.md":
        return  # it tells of what was
    homes = [ROOT, LIBRARY, page.parent, LIBRARY / "index", LIBRARY / "relation"]
    for name in _FILE.findall(text):
        real = name.startswith(("taxi_", "ais/", "lrb/", "ticks/"))  # in the folder of real data
        assert real or any((home / name).exists() for home in homes), name
    for name in _MODULE.findall(text):
        assert resolved(name), name


def resolved(name: str) -> bool:
    """Whether a dotted name leads to something."""
    try:
        value = thetastream
        for at, part in enumerate(name.split(".")[1:], 2):
            if not hasattr(value, part):
                import_module(".".join(name.split(".")[:at]))
            value = getattr(value, part)
    except (ImportError, AttributeError):
        return False
    return True


def test_the_checks_of_names_notice_mistakes() -> None:
    assert resolved("thetastream.spark.theta_join")
    assert resolved("thetastream.oracle")
    assert not resolved("thetastream.dashboard")
    assert _FILE.findall("`dashboard/` and `engine/query.py`") == ["dashboard/", "engine/query.py"]


def glossary() -> list[str]:
    """The words that the glossary defines, in its order."""
    text = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    return re.findall(r"^\| \*\*(.+?)\*\* \| \S", text, flags=re.MULTILINE)


def test_the_glossary_defines_the_words_of_the_engine() -> None:
    assert not [word for word in WORDS if word not in glossary()]


def test_the_glossary_is_sorted_and_defines_each_word_once() -> None:
    words = [word.lower() for word in glossary()]
    assert words == sorted({*words})


def test_the_readme_is_short() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150
    begin, end = (f"<!-- foundation:summary:{mark} -->" for mark in ("begin", "end"))
    table = lines[lines.index(begin) : lines.index(end)]
    rows = [line for line in table if line.startswith("|")]
    assert 3 <= len(rows) <= 2 + 8


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if not page.name.endswith("benchmarks.md")],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_targets_stay_in_the_laboratory(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"MISSED|\bmusts\b|\| must \||\| aim \||aim reached", text)


# --- What is shipped -----------------------------------------------------------------------------


def test_the_wheel_holds_the_library_and_no_benchmark(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    files = ZipFile(wheel).namelist()
    modules = {name for name in files if name.endswith(".py")}
    assert modules == {str(path.relative_to(ROOT / "src")) for path in SOURCES}
    assert "thetastream/py.typed" in files
    assert "thetastream/index/subwindows/opencl/kernels.cl" in files
    assert not [name for name in files if "bench" in name and name != "thetastream/cli/bench.py"]
