"""Manager and workers: commands in order, subwindows in turn, pairs computed ahead."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from thetastream.index import create, threads
from thetastream.index.subwindows.bi_sorted import BiSorted
from thetastream.index.subwindows.chain import Chain
from thetastream.index.subwindows.part import Part
from thetastream.index.subwindows.procedure import Create, Expire, Insert, SubwindowProbe, workers
from thetastream.index.threads import PairsAhead, pool

from ...keys import Array


def part(columns: int = 1) -> Part:
    return Part(BiSorted(size=6, parts=2, buffer=2, pool=None), columns)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_commands_are_carried_out_in_order(count: int) -> None:
    """A probe after an insert sees its rows; what is sent between two inserts sees the first."""
    for number, worker in enumerate(workers(count)):
        key, held = (-1, number), part()
        commands = (
            Create(key, held),
            Insert(key, np.array([[1, 5]]), np.array([1, 0])),
            Insert(key, np.array([[2, 2, 3, 9]]), np.arange(2, 6), close=True),
        )
        status = []
        for command in commands:
            worker.send(command)
            status.append(
                worker._sent(lambda held=held: (held.rows, held.rows >= held.inside.size))
            )  # type: ignore[misc]
        assert [seen.result() for seen in status] == [(0, False), (2, False), (6, True)]
        (view,) = held.views(1, 6)
        boxes = np.array([[2, 9]])
        answer = worker.ask(SubwindowProbe(view, boxes, boxes, 10, 0, 2)).result()
        pairs = [(p.tolist(), i.tolist()) for p, i in answer]
        assert pairs == [([0, 0, 1], [2, 3, 5])]
        worker.send(Expire(key)).result()
        gone = worker.send(Insert(key, np.array([[1]]), np.array([9])))
        with pytest.raises(KeyError):
            gone.result()


def test_one_worker_is_the_calling_thread() -> None:
    (alone,) = workers(1)
    assert alone._sent(threading.get_ident).result() == threading.get_ident()
    first, second = workers(2)
    threads = {worker._sent(threading.get_ident).result() for worker in (first, second)}
    assert len(threads) == 2
    assert threading.get_ident() not in threads
    assert workers(2) == (first, second), "the same ones for every window"


def test_subwindows_are_dealt_in_turn() -> None:
    index = create("bi-sort", capacity=6, subwindows=3, workers=3)
    assert isinstance(index, Chain)
    index.insert(np.arange(16), np.arange(16))
    crew = workers(3)
    assert [link.key[1] for link in index._links] == list(range(len(index._links)))
    index.expire(7)
    index.insert(np.arange(9), np.arange(16, 25))
    numbers = [link.key[1] for link in index._links]
    assert numbers[0] > 0
    assert len(numbers) > 3
    assert [crew.index(link.worker) for link in index._links] == [n % 3 for n in numbers]


def test_a_share_of_the_boxes() -> None:
    held = part()
    held.insert(np.array([[1, 2, 3, 4]]), np.arange(4))
    (view,) = held.views(0, 4)
    lows = np.array([[1, 2, 3, 4]])
    pairs = [
        SubwindowProbe(view, lows, lows, 10, start, stop).run() for start, stop in ((0, 2), (2, 4))
    ]
    found = [
        pair for some in pairs for p, i in some for pair in zip(p.tolist(), i.tolist(), strict=True)
    ]
    assert found == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_pairs_are_computed_ahead_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_KEPT", 25)
    made = []

    def chunks() -> Iterator[tuple[Array, Array]]:
        for at in range(6):
            made.append(at)
            yield np.full(10, at), np.arange(10)

    found = PairsAhead(chunks())
    found.look_ahead()
    assert made == [0, 1, 2], "26 pairs and more are enough"
    assert [int(positions[0]) for positions, _ in found] == list(range(6))
    assert list(found) == [], "read once"


def test_a_huge_answer_is_read_to_its_end_by_several_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More pairs than are computed ahead; rows that come meanwhile are no part of it."""
    monkeypatch.setattr(threads, "_KEPT", 50)
    for name in ("bi-sort", "rap-table", "wib-tree"):
        index = create(name, capacity=60, subwindows=2, partitions=3, threads=2, workers=2)
        index.insert(np.arange(70) % 3, np.arange(70))
        answer = index.probe(np.zeros(5, np.int64), np.full(5, 1), limit=7)
        head = [next(answer) for _ in range(3)]
        index.insert(np.arange(40) % 3, np.arange(70, 110))
        index.expire(90)
        found = sorted(
            pair
            for positions, ids in [*head, *answer]
            for pair in zip(positions.tolist(), ids.tolist(), strict=True)
        )
        assert found == [(box, row) for box in range(5) for row in range(70) if row % 3 < 2]


def test_an_error_of_a_worker_reaches_the_caller() -> None:
    index = create("bi-sort", capacity=4, subwindows=1, workers=2)
    assert isinstance(index, Chain)
    index.insert(np.arange(2), np.arange(2))
    index._links[0].part.insert = None  # type: ignore[assignment,method-assign]
    with pytest.raises(TypeError):
        index.insert(np.arange(1), np.arange(2, 3))


def test_pools() -> None:
    assert pool(1) is None
    assert pool(2) is pool(2)
    assert pool(2) is not pool(3)
