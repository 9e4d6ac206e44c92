"""Pieces of a file: each is read once, by one of the lanes; the one that fails is given."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from thetastream.relation.disk.kernels.blockread import PREAD, read_pieces

from ....keys import int64

SIZE = 500


def read(file: int, pieces: list[tuple[int, int]], lanes: int) -> tuple[bytes, list[int], int]:
    """What was read, what each lane said, and the next piece that nobody took."""
    sizes = int64([size for _, size in pieces])
    buffer, turn = np.full(int(sizes.sum()), 255, np.uint8), np.zeros(1, np.int64)
    targets = np.cumsum(sizes) - sizes + buffer.ctypes.data
    offsets = int64([offset for offset, _ in pieces])
    arguments = (PREAD, file, offsets, sizes, targets, turn)
    with ThreadPoolExecutor(lanes) as pool:
        said = list(pool.map(lambda _: int(read_pieces(*arguments)), range(lanes)))
    return buffer.tobytes(), said, int(turn[0])


PIECES = st.lists(st.tuples(st.integers(0, SIZE - 40), st.integers(1, 40)), max_size=20)


@given(PIECES, st.integers(1, 4))
def test_every_piece_comes_to_its_place(pieces: list[tuple[int, int]], lanes: int) -> None:
    data = np.random.default_rng(3).bytes(SIZE)
    with TemporaryFile() as file:
        file.write(data)
        file.flush()
        got, said, _ = read(file.fileno(), pieces, lanes)
    assert got == b"".join(data[offset : offset + size] for offset, size in pieces)
    assert said == [-1] * lanes


def test_a_piece_beyond_the_end_is_given_and_the_rest_can_follow(tmp_path: Path) -> None:
    data = bytes(range(100))
    (tmp_path / "file").write_bytes(data)
    pieces = [(0, 10), (95, 10), (20, 10)]
    with open(tmp_path / "file", "rb") as file:
        got, said, turn = read(file.fileno(), pieces, 1)
        assert (said, turn) == ([1], 2)
        assert got[:10] == data[:10]
        got, said, _ = read(file.fileno(), pieces, 2)
    assert sorted(said) == [-1, 1]
    assert got[20:] == data[20:30]


def test_no_such_file() -> None:
    assert read(-1, [(0, 1)], 1)[1] == [0]
