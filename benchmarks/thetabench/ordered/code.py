"""How much code a structure is: lines of the modules that it needs and its rivals do not."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import thetastream
from thetastream.index import names, structure

_OWN = ("thetastream.index.", "thetastream._jit.")


def code_lines(name: str, rivals: Iterable[str]) -> int:
    """Lines of code of a structure, those that it shares with some rival left out."""
    shared: set[str] = set()
    for rival in rivals:
        if rival != name and rival in names():
            shared |= _needed(structure(rival).__module__)
    own = _needed(structure(name).__module__) - shared
    return sum(statements(_path(module).read_text("utf-8")) for module in own)


def statements(text: str) -> int:
    r"""Lines that hold code: no blank lines, comments or docstrings.

    >>> statements('"Purpose."\n\nx = (1,\n     2)  # two\n# none\n')
    2
    """
    tree = ast.parse(text)
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if isinstance(body, list) and body else node.end_lineno
            lines.update(range(node.lineno, max(node.lineno, last or 0) + 1))
    return len(lines)


@cache
def _needed(module: str) -> frozenset[str]:
    """A module of ours and those that it imports, directly or not."""
    needed: set[str] = set()
    open_ends = [module]
    while open_ends:
        name = open_ends.pop()
        if name in needed or not name.startswith(_OWN) or not _path(name).exists():
            continue
        needed.add(name)
        for node in ast.walk(ast.parse(_path(name).read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                open_ends.append(node.module)
                open_ends += [f"{node.module}.{alias.name}" for alias in node.names]
    return frozenset(needed)


def _path(module: str) -> Path:
    return Path(thetastream.__file__).parent.joinpath(*module.split(".")[1:]).with_suffix(".py")
