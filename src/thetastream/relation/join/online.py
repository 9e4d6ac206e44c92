"""The online phase: rows are looked up in batches; what is cached is joined (SSIJ, Algorithm 1).

Rows are looked up in the order of their keys, so neighbours meet the same part of the index and the
same blocks. Rows of which some leaf is not cached wait for it, with what they have matched so far.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from thetastream.data.order import argsorted
from thetastream.data.rows import BatchView
from thetastream.relation.join.answer import StreamRows
from thetastream.relation.join.arrivals import Arrived
from thetastream.relation.join.engine import Engine
from thetastream.relation.join.kernels.leaves import ask, split_by_cache
from thetastream.relation.join.matching import Boxes

__all__ = ["online_phase"]

Array = NDArray[np.int64]
_BOX = np.int64(0xFFFFFFFF)


def online_phase(engine: Engine, arrived: Arrived) -> Generator[pa.RecordBatch | None, None, None]:
    """Look rows up; give what cached leaves answer, and let the others wait.

    O(rows × log leaves), no reads. None: the questions of some rows have filled the memory, so that
    a join phase must come before the next rows are looked up.
    """
    counters = engine.counters
    counters.online_phases += 1
    rows = arrived.batch.num_rows
    boxes = engine.matching.boxes(arrived.batch)
    counters.null_keys += boxes.null_keys
    counters.nan_keys += boxes.nan_keys
    engine.clock.charge(rows=rows)
    stream = StreamRows(BatchView(arrived.batch), boxes, np.zeros(rows, np.bool_))
    for part in _parts(engine, boxes):
        yield from _look_up(engine, arrived, stream, *part)


def _parts(engine: Engine, boxes: Boxes) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Rows in the order of their keys, their boxes, and the leaves of those; few questions each."""
    pieces = boxes.pieces
    order, _ = argsorted(np.ascontiguousarray(boxes.lows[::pieces]))
    places = _boxes_of(order, pieces)
    first, stop = engine.fences.ranges(boxes.lows[places], boxes.highs[places])
    total = np.cumsum((stop - first).reshape(-1, pieces).sum(axis=1))
    begin = 0
    while begin < order.size:
        before = int(total[begin - 1]) if begin else 0
        end = int(np.searchsorted(total, before + engine.questions, side="right"))
        end = max(end, begin + 1)
        part = slice(begin * pieces, end * pieces)
        yield order[begin:end], places[part], first[part], stop[part]
        begin = end


def _boxes_of(rows: Array, pieces: int) -> Array:
    return rows if pieces == 1 else (rows[:, None] * pieces + np.arange(pieces)).ravel()


def _look_up(
    engine: Engine,
    arrived: Arrived,
    stream: StreamRows,
    rows: Array,
    asking: Array,
    first: Array,
    stop: Array,
) -> Iterator[pa.RecordBatch | None]:
    pieces = stream.boxes.pieces
    found, slots, missing = _split(engine, stream.boxes, asking, first, stop, rows.size)
    size = engine.cache.block_bytes
    yield from engine.answers.pairs(stream, found, slots * size, engine.cache.arena)
    if missing.size and not engine.matching.how.pairs:
        # One match decides semi and anti joins: nothing more need be read for such a row.
        missing = missing[~stream.matched[(missing & _BOX) // pieces]]
    waits = np.zeros(stream.matched.size, np.bool_)
    waits[(missing & _BOX) // pieces] = True
    done = rows[~waits[rows]]
    if found.size or missing.size:
        hits = found.size / (found.size + missing.size)
        engine.listener.answered(hits, done.size / rows.size)
    yield from engine.answers.alone(stream, done)
    if done.size:
        engine.listener.done(arrived.segments_of(done))
    if missing.size:
        _wait(engine, arrived, stream, np.flatnonzero(waits), missing)
        if engine.is_full:
            yield None  # let a join phase come between


def _split(
    engine: Engine, boxes: Boxes, asking: Array, first: Array, stop: Array, rows: int
) -> tuple[Array, Array, Array]:
    """Questions that the cache answers, their slots, and the questions it does not answer."""
    room = int((stop - first).sum())
    questions, slots, missing = (np.empty(room, np.int64) for _ in range(3))
    ranged = int(engine.zones.size > 0)
    cursor = np.array([0, -1])
    count = ask(
        asking,
        first,
        stop,
        ranged,
        boxes.least,
        engine.greatest,
        engine.zones,
        cursor,
        questions,
    )
    engine.listener.asked(questions[:count] >> 32, rows)
    cache = engine.cache
    hits = split_by_cache(questions, count, cache.slots, cache.uses, slots, missing)
    engine.counters.hits += hits
    engine.counters.misses += count - hits
    cache.touch(slots[:hits])
    return questions[:hits], slots[:hits], missing[: count - hits]


def _wait(
    engine: Engine, arrived: Arrived, stream: StreamRows, rows: Array, missing: Array
) -> None:
    """Move rows to the stream buffer and their questions to the inverted index."""
    pieces = stream.boxes.pieces
    taken = arrived.batch.select(engine.matching.held_columns()).take(pa.array(rows))
    boxes = stream.boxes.take(_boxes_of(rows, pieces))
    numbers = np.empty(stream.matched.size, np.int64)
    numbers[rows] = np.arange(engine.waiting.rows, engine.waiting.rows + rows.size)
    box = missing & _BOX
    moved = (missing & ~_BOX) | (numbers[box // pieces] * pieces + box % pieces)
    engine.make_room(taken.nbytes + boxes.nbytes + moved.nbytes + rows.size)
    engine.waiting.append(taken, boxes, stream.matched[rows], arrived.segments_of(rows))
    engine.waiting.ask(moved)
    engine.account()
