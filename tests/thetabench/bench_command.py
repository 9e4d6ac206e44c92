"""The command ``thetastream bench`` and its result files, as the tests of all papers check them."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from thetabench.line import Line
from thetabench.paper import Paper
from thetabench.plots import plot
from thetabench.tables import filled, marks, write_page
from thetastream.cli import app
from thetastream.errors import DataError


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


# --- Results -------------------------------------------------------------------------------------


def check_file(paper: Paper, lines: list[Line], folder: Path) -> None:
    """Lines are read as they were written; an absent file names the command that writes it."""
    path = folder / "new" / f"{paper.name}.csv"
    paper.write(path, lines)
    assert paper.read(path) == lines
    with pytest.raises(DataError, match=f"thetastream bench {paper.name}"):
        paper.read(folder / "absent.csv")


def page_of(
    paper: Paper, lines: list[Line], folder: Path, figure: str, places: Iterable[str]
) -> str:
    """A page with the tables of the lines; ``figure`` has a plot. Filling it again changes nothing.

    ``places`` are the names between whose marks the page has room.
    """
    file, page = folder / f"{paper.name}.csv", folder / "page.md"
    paper.write(file, lines)
    picture = f"{paper.name}-{figure}.png"
    (folder / picture).touch()
    rooms = {name: "|".join(marks(paper.name, name)) for name in places}
    page.write_text("".join(f"# {n}\n{room}\n" for n, room in rooms.items()), encoding="utf-8")
    write_page(paper, file, page)
    written = page.read_text(encoding="utf-8")
    assert "MISSED" in written
    assert f"]({picture})" in written
    assert filled(paper, written, lines, {figure: picture}) == written
    return written


def check_plots(paper: Paper, lines: list[Line], folder: Path, drawn: list[str]) -> None:
    """The figures that have a plot, each as a PNG file."""
    files = plot(paper, lines, folder, "sample")
    assert [file.name for file in files] == [f"sample-{name}.png" for name in drawn]
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files)


def measured_twice(paper: Paper, folder: Path, first: str, then: str, says: str) -> list[Line]:
    """Measure figures, then others into the same file, where the first ones stay; its lines.

    ``says`` is a part of what the first run prints.
    """
    done = small(paper.name, first, folder, "--plots")
    assert done.exit_code == 0, done.output
    assert "what must be reached" in done.output
    assert says in done.output
    path = folder / f"{paper.name}-scale-0.0001.csv"
    before = paper.read(path)
    figures = {line.figure for line in before}
    assert (folder / f"{path.stem}-{before[0].figure}.png").exists()
    assert {(line.verified, line.scale) for line in before if line.ran} == {(True, 0.0001)}
    assert "numba" in before[0].versions
    again = small(paper.name, then, folder)
    assert again.exit_code == 0, again.output
    after = paper.read(path)
    assert [line for line in after if line.figure in figures] == before
    return after


def check_smoke(paper: Paper, folder: Path) -> list[Line]:
    """Measure every figure at a hundredth of its scale, with plots; return the lines."""
    done = command(paper.name, "--scale", "0.01", "--output", str(folder), "--plots")
    assert done.exit_code == 0, done.output
    lines = paper.read(folder / f"{paper.name}-scale-0.01.csv")
    assert {line.figure for line in lines} == set(paper.figures)
    return lines
