"""Work shared among threads: in order, bounded, and ended by failures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from thetastream.tables.threads import STEP, in_order


def letters(chunk: int) -> Iterator[tuple[int, int]]:
    yield from ((chunk, i) for i in range(chunk * 5))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_items_come_in_the_order_of_chunks(threads: int) -> None:
    wanted = [item for chunk in range(9) for item in letters(chunk)]
    assert list(in_order(letters, range(9), threads)) == wanted


def test_threads_wait_for_the_reader() -> None:
    made: list[int] = []

    def endless(chunk: int) -> Iterator[int]:
        while True:
            made.append(chunk)
            yield chunk

    items = in_order(endless, range(100), 2)
    assert next(items) == 0
    items.close()  # ends the threads
    assert len(made) <= (2 + 2) * STEP
    assert set(made) <= {0, 1, 2}


@pytest.mark.parametrize("threads", [1, 2])
def test_a_failure_reaches_the_reader(threads: int) -> None:
    def failing(chunk: int) -> Iterator[int]:
        yield chunk
        if chunk == 3:
            raise ValueError("the third")

    read: list[int] = []
    with pytest.raises(ValueError, match="the third"):
        read.extend(in_order(failing, range(9), threads))
    assert read[:3] == [0, 1, 2]
