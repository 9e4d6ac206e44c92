"""Zone maps and the probes that skip by them, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from thetastream.index.runs.kernels.search import build_router
from thetastream.index.runs.kernels.zones import BLOCK, CURSOR, probe_zones, zone_counts
from thetastream.index.runs.run import Run, Zones

from ....keys import HIGH, KEYS, LOW, Array, Pair, drained
from ...index_boxes import boxed, brute

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

Box = list[Pair]


def placed(keys: Array, ids: Array, gap: int) -> Run:
    """A run that begins ``gap`` rows into its arrays, with rows of no run around it."""
    order = np.argsort(keys[0], kind="stable")
    count = ids.size
    room = np.zeros((keys.shape[0], gap + count + 3), np.int64), np.zeros(gap + count + 3, np.int64)
    room[0][:, gap : gap + count], room[1][gap : gap + count] = keys[:, order], ids[order]
    part = slice(gap, gap + count)
    column = room[0][0, part]
    low, high = int(column[0]), int(column[-1])
    shift = max(0, (high - low).bit_length() - max(1, count // 8).bit_length())
    router = np.empty(((high - low) >> shift) + 2, np.int32)
    build_router(column, np.int64(low), np.int64(shift), router)
    return Run(room[0][:, part], room[1][part], 0, HIGH, room, gap, low, shift, router).zoned()


def read(run: Run, boxes: list[Box], before: int, room: int) -> list[Pair]:
    """All pairs, in chunks of ``room``."""
    assert run.zones is not None
    asked = (
        *run.place, np.int64(run.low), np.int64(run.shift), run.router,
        run.zones.least, run.zones.most, *boxed(boxes, run.keys.shape[0]), before,
    )  # fmt: skip
    start = [0, -1, *[0] * (CURSOR - 2)]
    return drained(
        lambda cursor, *out: probe_zones(*asked, cursor, 0, *out), len(boxes), room, start
    )


def nested(run: Run, boxes: list[Box], before: int) -> list[Pair]:
    """By testing every row, in the order of the run."""
    return brute(run.keys, run.ids, *boxed(boxes, run.keys.shape[0]), before)


@given(st.integers(1, 300), st.integers(0, 200), st.integers(2, 4), st.integers(0, 9))
@example(64, 0, 2, 0)
@example(64, 64, 2, 0)
@example(1, 63, 2, 0)
def test_a_zone_is_that_of_its_rows(rows: int, gap: int, columns: int, seed: int) -> None:
    keys = np.random.default_rng(seed).integers(LOW, HIGH, (columns, gap + rows + 5))
    zones = Zones.of(keys, gap, gap + rows)
    blocks, supers = zone_counts(keys.shape[1])
    assert zones.least.shape == zones.most.shape == (columns - 1, blocks + supers)
    assert blocks % 64 == supers % 64 == 0
    for c in range(columns - 1):
        for level, size in ((range(blocks), BLOCK), (range(supers), BLOCK**2)):
            for at in level:
                part = keys[c + 1, max(gap, at * size) : max(0, min(gap + rows, (at + 1) * size))]
                zone = (
                    zones.least[c, at + (size > BLOCK) * blocks],
                    zones.most[c, at + (size > BLOCK) * blocks],
                )
                assert zone == ((part.min(), part.max()) if part.size else (HIGH, LOW))


@st.composite
def cases(draw: st.DrawFn) -> tuple[Run, list[Box]]:
    """Rows of a few kinds, often more than a block of them, and boxes."""
    columns = draw(st.integers(2, 4))
    kinds = draw(st.lists(st.tuples(*[KEYS] * columns), min_size=1, max_size=8))
    times = draw(st.sampled_from([1, 9, 30]))
    keys = np.array(kinds * times, np.int64).reshape(-1, columns).T
    boxes = draw(
        st.lists(
            st.lists(st.tuples(KEYS, KEYS), min_size=columns, max_size=columns),
            max_size=5,
        )
    )
    ids = np.random.default_rng(len(kinds)).permutation(keys.shape[1])
    return placed(keys, ids, draw(st.sampled_from([0, 1, 63, 64, 100]))), boxes


@given(cases(), st.integers(0, 40), st.sampled_from([1, 2, 7, 64, 1000]))
def test_probe_finds_what_a_nested_loop_finds(
    case: tuple[Run, list[Box]], before: int, room: int
) -> None:
    run, boxes = case
    assert read(run, boxes, before, room) == nested(run, boxes, before)


@pytest.mark.parametrize("room", [1, 2, 3, 5, 8, 63, 64, 65, 1000])
def test_every_limit_is_resumed(room: int) -> None:
    at = np.arange(700)
    run = placed(np.stack([at // 3, at % 7, at % 5]), at[::-1].copy(), 11)
    boxes: list[Box] = [
        [(0, 230), (2, 4), (0, 3)],
        [(100, 99), (0, 9), (0, 9)],
        [(100, 100), (0, 9), (0, 9)],
        [(LOW, HIGH), (6, 6), (LOW, HIGH)],
    ]
    for before in (0, 350):
        assert read(run, boxes, before, room) == nested(run, boxes, before)


@pytest.mark.parametrize("at", [0, 63, 64, 4_095, 4_096, 8_191, 8_192, 9_998, 9_999])
@pytest.mark.parametrize("gap", [0, 77])
def test_zones_do_not_hide_a_single_hit(at: int, gap: int) -> None:
    keys = np.zeros((2, 10_000), np.int64)
    keys[0], keys[1, at] = np.arange(10_000), HIGH
    run = placed(keys, np.arange(10_000), gap)
    assert read(run, [[(0, 20_000), (HIGH, HIGH)]], 0, 4) == [(0, at)]
    assert read(run, [[(0, at), (1, HIGH)], [(at, HIGH), (1, HIGH)]], 0, 4) == [(0, at), (1, at)]
    assert read(run, [[(at + 1, HIGH), (1, HIGH)], [(LOW, at - 1), (1, HIGH)]], 0, 4) == []


@pytest.mark.parametrize("gap", [0, 5_000])
def test_more_than_64_superblocks(gap: int) -> None:
    rows = 300_000
    keys = np.stack([np.arange(rows), np.arange(rows) ^ 1])
    run = placed(keys, np.arange(rows), gap)
    edge = 64 * BLOCK**2 - gap
    boxes: list[Box] = [
        [(LOW, at), (at - 3, HIGH)] for at in (5, edge - 1, edge, edge + 1, 299_999)
    ] + [[(edge - 2, edge + 1), (LOW, HIGH)], [(0, rows), (HIGH, HIGH)]]
    assert read(run, boxes, 0, 6) == nested(run, boxes, 0)


@pytest.mark.parametrize("outlier", [LOW, HIGH])
def test_long_slots(outlier: int) -> None:
    """One key far away makes all others share a slot of the router: edges are then searched for."""
    keys = np.stack([np.append(np.arange(2_000), outlier), np.arange(2_001)])
    run = placed(keys, np.arange(2_001), 0)
    assert (run.router[1:] - run.router[:-1]).max() > 256
    boxes: list[Box] = [
        [(low, high), (0, 1_500)] for low in (-5, 0, 700, 1_999) for high in (-1, 0, 701, 2_500)
    ]
    assert read(run, boxes, 0, 500) == nested(run, boxes, 0)


def test_many_boxes_share_the_room_of_a_cursor() -> None:
    at = np.arange(3_000)
    run = placed(np.stack([at, at + at % 90]), at.copy(), 0)
    boxes: list[Box] = [[(LOW, high), (high, HIGH)] for high in range(0, 3_000, 37)]
    assert read(run, boxes, 10, 17) == nested(run, boxes, 10)
