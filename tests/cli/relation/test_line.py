"""The line that says how far a build or a join is: live on a terminal, plain lines elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from thetastream.cli import progress
from thetastream.cli.progress import WorkLine
from thetastream.cli.relation.build import _part, _stage, read_key
from thetastream.errors import RelationError
from thetastream.relation.files.build import Progress


def test_on_a_terminal_the_line_redraws_itself() -> None:
    file = io.StringIO()
    with WorkLine(Console(file=file, force_terminal=True, width=100)) as line:
        line.show("read 5 rows", 5, 10)
        line.show("read 10 rows", 10, 10)
    assert "read 10 rows" in file.getvalue()
    assert "\x1b[" in file.getvalue()


def test_elsewhere_lines_come_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    with WorkLine(Console(file=file, width=100)) as line:
        line.show("too early")
        monkeypatch.setattr(progress, "PLAIN_SECONDS", 0.0)
        line.show("[now]")
    assert file.getvalue() == "[now]\n"


def test_time_stands_still_at_the_end() -> None:
    with WorkLine(Console(file=io.StringIO())) as line:
        assert line.seconds >= 0
    assert line.seconds == line.seconds


def test_what_a_build_says() -> None:
    assert _stage(Progress(read=1500, total=3000), 2) == "read 1.50k of 3.00k rows · 2 s"
    assert _stage(Progress(read=1500), 2) == "read 1.50k rows · 2 s"
    assert _stage(Progress(read=9, written=3, total=9), 0) == "written 3 of 9 rows · 0 s"
    assert [_part(Progress(read=9, written=w, total=9)) for w in (0, 9)] == [0.5, 1.0]
    assert _part(Progress(read=9)) == 0.0


@pytest.mark.parametrize("names", [[], ["a,b,c"], ["a,"], ["a", "b,c"]])
def test_keys_that_are_none(names: list[str]) -> None:
    with pytest.raises(RelationError, match="one key column, or two of an interval"):
        read_key(names)
