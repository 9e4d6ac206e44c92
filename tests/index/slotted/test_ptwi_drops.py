"""PTWI: whole subwindows are dropped, freed by a thread, and outlived by open answers."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections import Counter
from itertools import islice

import numpy as np
import pytest

from thetastream.index import registry
from thetastream.index.runs.sorted_runs import SortedRuns
from thetastream.index.slotted import disposal
from thetastream.index.slotted.ptwi import Ptwi

from ...keys import HIGH, LOW, pair_counts
from .slots import every, everything, made, put


class Noted(SortedRuns):
    """Remembers that it was told of expired rows."""

    told = 0

    def expire(self, before: int) -> None:
        self.told = before
        super().expire(before)


def test_a_whole_subwindow_is_dropped_without_a_look_at_its_rows() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry._STRUCTURES, "noted", Noted)
        index = Ptwi(6, 1, "noted", subwindows=2)
        put(index, [1, 2, 3, 4], 0)
    oldest = index.slots_between(LOW, HIGH)[0].index
    freed = weakref.ref(oldest)
    index.expire(3)
    assert isinstance(oldest, Noted)
    assert oldest.told == 0
    del oldest
    disposal.settle()
    assert freed() is None
    assert index.statistics["slots_dropped"] == 1
    index.expire(4)
    assert len(index) == 0


@every
def test_memory_does_not_wait_for_the_garbage_collector(inner: str) -> None:
    """A cycle of references inside a structure would keep its arrays until then."""
    index = made(inner)
    put(index, [1, 2, 3, 4], 0)
    everything(index)
    freed = weakref.ref(index.slots_between(LOW, HIGH)[0].index)
    gc.disable()
    try:
        index.expire(2)
        disposal.settle()
        assert freed() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("background", [True, False])
@every
def test_open_answers_outlive_their_subwindows(inner: str, background: bool) -> None:
    index = made(inner, background=background)
    put(index, [1, 2, 3, 4], 0)
    answer = index.probe(np.array([0]), np.array([9]), limit=1)
    read = list(islice(answer, 1))
    index.expire(4)
    put(index, [1, 2, 3, 4], 4)
    disposal.settle()
    assert pair_counts([*read, *answer]) == Counter({(0, i): 1 for i in range(4)})
    assert pair_counts(answer.again()) == Counter({(0, i): 1 for i in range(4)})
    assert everything(index) == [4, 5, 6, 7]


def test_trees_that_delete_are_spared_it() -> None:
    """Expired rows of the oldest subwindow are left out here; the newest one deletes them."""
    index = made("b+tree", capacity=20, subwindows=2)
    put(index, list(range(20)), 0)
    index.expire(7)
    oldest, newest = (slot.index for slot in index.slots_between(LOW, HIGH))
    assert len(oldest) == 10
    assert everything(index) == list(range(7, 20))
    assert len(index) == index.map(0, 99) == 13
    index.expire(17)
    assert len(newest) == 3
    assert index.map(0, 99, "min") == 17
    index.check()


def test_a_full_queue_frees_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And so does one without a thread, as at the end of a process."""
    queue = disposal._Disposal()
    monkeypatch.setattr(disposal, "_disposal", queue)
    lists = [[number] for number in range(disposal._WAITING + 3)]
    alone = [1]
    disposal.discard(alone)
    disposal.settle()
    assert not alone
    monkeypatch.setattr(queue, "_thread", object())  # one that never comes
    for one in lists:
        disposal.discard(one)
    assert [len(one) for one in lists] == [1] * disposal._WAITING + [0] * 3


PROCESS = """
import os, sys, weakref
import numpy as np
from thetastream.index.slotted import disposal
disposal.begin()
disposal.discard([np.empty(5)])
disposal.settle()
child = os.fork() if hasattr(os, "fork") else 0
if child == 0:
    thing, other = [np.empty(5)], [np.empty(5)]
    disposal.discard(thing)
    assert not thing
    disposal.begin()
    disposal.discard(other)
    disposal.settle()
    assert not other
    print("freed", flush=True)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
disposal.discard([np.empty(5)])
"""


def test_the_thread_ends_with_the_process_and_begins_in_a_fork() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROCESS],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "freed", "")
