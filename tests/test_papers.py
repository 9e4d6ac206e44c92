"""``docs/papers.md``: every file and symbol it names exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/papers.md").read_text(encoding="utf-8")
PAPERS = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
_PLACE = re.compile(r"^`([\w/.]+\.\w+)`(?:: (`[^`]+`(?:, `[^`]+`)*))?$")


def places(text: str) -> list[tuple[str, list[str]]]:
    """The files named in the second column of a paper's table, with their symbols."""
    found = []
    for line in text.splitlines():
        cells = re.split(r"(?<!\\)\|", line)
        if len(cells) != 6 or cells[1].strip() in ("in the paper", "---"):
            continue
        for part in filter(lambda part: part not in ("–", "---"), cells[2].strip().split("<br>")):
            match = _PLACE.match(part.strip())
            assert match, f"not of the form `file`: `symbol`: {part}"
            found.append((match[1], re.findall(r"`([^`]+)`", match[2] or "")))
    return found


@cache
def symbols(path: Path) -> set[str]:
    """Names defined at the top of a file, and in its classes as ``Class.name``."""
    found: set[str] = set()

    def add(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.If):
                add([*node.body, *node.orelse], prefix)
            for name in defined(node):
                found.add(prefix + name)
            if isinstance(node, ast.ClassDef):
                add(node.body, f"{prefix}{node.name}.")

    add(ast.parse(path.read_text(encoding="utf-8")).body, "")
    return found


def defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return [node.name]
    if isinstance(node, ast.AnnAssign):
        return [ast.unparse(node.target)]
    if isinstance(node, ast.Assign):
        return [name.id for t in node.targets for name in ast.walk(t) if isinstance(name, ast.Name)]
    return []


@pytest.mark.parametrize("paper", PAPERS, ids=lambda text: text.partition(":")[0])
def test_what_the_page_names_exists(paper: str) -> None:
    wrong = []
    found = places(paper)
    for name, wanted in found:
        path = ROOT / name if name.startswith("benchmarks/") else ROOT / "src/thetastream" / name
        if not path.exists():
            wrong.append(name)
        elif path.suffix == ".py":
            wrong += [f"{name}: {symbol}" for symbol in wanted if symbol not in symbols(path)]
    assert not wrong
    assert len(found) > 25


def test_there_are_five_papers() -> None:
    assert len(PAPERS) == 5
