"""README and documentation: every link resolves, every Python example runs.

A block of Python that follows a line ``<!-- not run -->`` is shown but not run. The blocks of one
page share one namespace and run in order, in a folder of their own.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/**/*.md")],
)
SKIP = "<!-- not run -->"

_FENCE = re.compile(r"^\s*(```+|~~~+)\s*(\w*)")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^()\s]+(?:\([^()\s]*\))?)(?:\s+\"[^\"]*\")?\)")
_HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
_EXTERNAL = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, the line it starts on (from 1), its text."""

    language: str
    line: int
    text: str
    skipped: bool


def split(text: str) -> tuple[list[str], list[Block]]:
    """Cut a page into its prose lines and its fenced blocks."""
    prose: list[str] = []
    blocks: list[Block] = []
    fence = ""
    language = ""
    start = 0
    body: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        mark = _FENCE.match(line)
        if fence:
            if mark and line.strip() == fence:
                last = next((held for held in reversed(prose) if held.strip()), "")
                blocks.append(Block(language, start, "\n".join(body), last.strip() == SKIP))
                prose.append("```")  # so that one comment marks one block only
                fence = ""
            else:
                body.append(line)
        elif mark:
            fence, language, start, body = mark[1], mark[2].lower(), number + 1, []
        else:
            prose.append(line)
    assert not fence, f"the block that starts on line {start} is never closed"
    return prose, blocks


def anchors(text: str) -> set[str]:
    """The link targets a page's headings make, as forges make them."""
    found: dict[str, int] = {}
    names: set[str] = set()
    for line in split(text)[0]:
        heading = _HEADING.match(line)
        if heading:
            words = re.sub(r"[^\w\- ]", "", heading[1].lower()).replace(" ", "-")
            seen = found.get(words, 0)
            found[words] = seen + 1
            names.add(f"{words}-{seen}" if seen else words)
    return names


def links(text: str) -> Iterator[str]:
    """The targets of every internal link in a page's prose."""
    for line in split(text)[0]:
        for target in _LINK.findall(re.sub(r"`[^`]*`", "", line)):
            if not _EXTERNAL.match(target):
                yield target


def broken(page: Path) -> list[str]:
    """The internal links of a page that lead nowhere."""
    wrong = []
    for target in links(page.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (
            anchor
            and file.suffix == ".md"
            and anchor not in anchors(file.read_text(encoding="utf-8"))
        ):
            wrong.append(target)
    return wrong


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_resolve(page: Path) -> None:
    assert broken(page) == []


ON_SPARK = [page for page in PAGES if "SparkSession" in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", [page for page in PAGES if page not in ON_SPARK], ids=name)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(page)


@pytest.mark.smoke
@pytest.mark.parametrize("page", ON_SPARK, ids=name)
def test_examples_run_on_spark(page: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the folder of the JVM, to which relative paths belong; what they write is removed."""
    home = Path(spark._jvm.java.lang.System.getProperty("user.dir"))
    assert home != ROOT
    before = {*home.iterdir()}
    monkeypatch.chdir(home)
    try:
        run(page)
    finally:
        for query in spark.streams.active:
            query.stop()
        for left in {*home.iterdir()} - before:
            shutil.rmtree(left) if left.is_dir() else left.unlink()


def run(page: Path) -> None:
    """Run the blocks of a page."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in split(page.read_text(encoding="utf-8"))[1]:
        if block.language == "python" and not block.skipped:
            # newlines first: a failure then shows the page's own line number
            source = "\n" * (block.line - 1) + block.text
            exec(compile(source, name(page), "exec"), namespace)


def test_every_page_is_reached_from_the_index() -> None:
    docs = ROOT / "docs"
    seen: set[Path] = set()
    todo = [docs / "index.md"]
    while todo:
        page = todo.pop()
        if page in seen:
            continue
        seen.add(page)
        for target in links(page.read_text(encoding="utf-8")):
            file = (page.parent / target.partition("#")[0]).resolve()
            if file.suffix == ".md" and file.is_relative_to(docs) and file.exists():
                todo.append(file)
    assert sorted(map(name, docs.glob("**/*.md"))) == sorted(map(name, seen))


def test_the_checks_notice_mistakes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A heading\n[a](#a-heading) [b](#nowhere) [c](gone.md) `[d](code.md)`\n"
        f"{SKIP}\n\n```python\n1 / 0\n```\n```python\nx = 1\n```\n",
        encoding="utf-8",
    )
    assert broken(page) == ["#nowhere", "gone.md"]
    first, second = split(page.read_text(encoding="utf-8"))[1]
    assert first.skipped
    assert not second.skipped
    assert (second.line, second.text) == (9, "x = 1")
