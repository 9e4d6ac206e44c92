"""Changing traffic in the experiments of the PanJoin paper: its answers and its lines."""

from __future__ import annotations

import pytest

from thetabench.digest import Digest, VerificationError
from thetabench.panjoin.paper import PAPER
from thetabench.panjoin.phases import ALL, Story

from .test_panjoin_bench import TINY, digest_of, measured


def test_the_right_answers_of_changing_traffic_are_those_of_a_nested_loop() -> None:
    story = Story(256, 3)
    assert [phase.drifts for phase in story.phases].count(True) == 2
    for pushes in story.pushes:
        for push in (pushes[0], pushes[len(pushes) // 2], pushes[-1]):
            lows, highs = story.boxes(push)
            pairs = [
                (box, row)
                for box in range(lows.size)
                for row in range(push.start - 256, push.start)
                if lows[box] <= story.keys[row] <= highs[box]
            ]
            assert story.right(push) == digest_of(pairs)
    assert [a[-1].stop for a in story.pushes[:-1]] == [b[0].start for b in story.pushes[1:]]


def test_phases_have_a_line_each_and_one_for_all() -> None:
    (cell,) = PAPER.cells(["phases"], TINY)
    lines = measured([cell])
    story = Story(256, 0)
    for who in cell.contestants:
        own = {line.place: line for line in lines if line.contestant == who.label}
        assert [line.distribution for line in own.values()] == [
            *(phase.about for phase in story.phases), "all phases"
        ]  # fmt: skip
        whole = own.pop(ALL)
        for column in ("tuples", "batches", "pairs"):
            assert getattr(whole, column) == sum(getattr(line, column) for line in own.values())
    assert len({(line.place, line.pairs) for line in lines}) == len(story.phases) + 1


def test_a_wrong_answer_ends_changing_traffic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Story, "right", lambda self, push: Digest(0, push.number))
    with pytest.raises(VerificationError, match=r"auto .* gave a wrong answer in batch 0"):
        measured(PAPER.cells(["phases"], TINY))
