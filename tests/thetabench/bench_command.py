"""The command ``thetastream bench``, as the tests of all papers call it."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from typer.testing import CliRunner, Result

from thetastream.cli import app

__all__ = ["check_examples", "check_listed", "command", "modules", "small"]


def command(*arguments: str) -> Result:
    """Call ``bench`` with arguments."""
    return CliRunner().invoke(app, ["bench", *arguments])


def small(paper: str, figure: str, folder: Path, *more: str) -> Result:
    """Measure figures of a paper, as small and short as they go."""
    scale = ("--scale", "0.0001", "--seconds", "0.002")
    return command(paper, "--figure", figure, *scale, "--output", str(folder), *more)


def check_listed(figures: Mapping[str, Any]) -> None:
    """``--list`` names every figure, and says what it is about."""
    done = command("--list")
    assert done.exit_code == 0
    for name, figure in figures.items():
        assert f"--figure {name}" in done.output
        assert figure.about in done.output


def modules(package: ModuleType) -> list[str]:
    """Names of the modules of a package."""
    return [module.name for module in pkgutil.iter_modules(package.__path__)]


def check_examples(package: ModuleType, name: str) -> None:
    """The examples in the docstrings of a module are right."""
    module = importlib.import_module(f"{package.__name__}.{name}")
    assert doctest.testmod(module).failed == 0
