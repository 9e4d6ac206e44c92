"""The door to the laboratory."""

from __future__ import annotations

import pytest

from thetastream.cli import bench


def test_the_options_are_those_of_the_laboratory(command) -> None:
    result = command("bench", "--help")
    assert "thetastream bench [OPTIONS]" in result.stdout
    assert "--contestant" in result.stdout


def test_wrong_input_is_a_message_and_code_2(command) -> None:
    result = command("bench", "fundation", code=2)
    assert "did you mean 'foundation'" in result.stderr.lower()
    command("bench", "--no-such-option", code=2)


def test_without_the_laboratory_it_says_where_it_is(
    command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "find_spec", lambda name: None)
    result = command("bench", "quick", code=2)
    assert "benchmarks/ of a checkout" in result.stderr
    assert "make setup" in result.stderr
