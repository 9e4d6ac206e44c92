"""The online phase: looks up a batch of rows and joins it with the cache (SSIJ, Algorithm 1).

Rows are looked up in key order, so neighbours use the same part of the index and the same blocks.
Rows with a leaf that is not cached wait for it; their matches so far are recorded.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np
import pyarrow as pa

from thetastream._jit.arrays import Array
from thetastream.data.order import argsorted
from thetastream.data.rows import BatchView, gatherable
from thetastream.relation.join.answer import Answers, StreamRows
from thetastream.relation.join.arrivals import ArrivedRows
from thetastream.relation.join.cache import BlockCache
from thetastream.relation.join.leaf_index import LeafIndex
from thetastream.relation.join.matching import RelationBoxes
from thetastream.relation.join.pace import Pace
from thetastream.relation.join.waiting import StreamBuffer

_BOX = np.int64(0xFFFFFFFF)


def online_phase(
    arrived: ArrivedRows,
    boxes: RelationBoxes,
    index: LeafIndex,
    cache: BlockCache,
    waiting: StreamBuffer,
    answers: Answers,
    pace: Pace,
    limit: int,
) -> Generator[pa.RecordBatch | None, None, None]:
    """Look rows up; output what cached leaves answer, and let the other rows wait.

    Asks at most ``limit`` questions at a time. O(rows × log leaves), no reads. Yields None if
    waiting rows have filled the memory, so that a join phase must run before the next look-up.
    """
    batch = arrived.batch
    stream = StreamRows(BatchView(batch), boxes, np.zeros(batch.num_rows, np.bool_))
    for rows, asking, first, stop in _parts(index, boxes, limit):
        questions = index.questions(boxes, asking, first, stop)
        pace.tuner.see(questions >> 32, rows.size)
        hits, bases, missing = cache.split(questions)
        yield from answers.pairs(stream, hits, bases, cache.arena)
        if missing.size:
            missing = answers.undecided(stream, missing)
        waits = np.zeros(batch.num_rows, np.bool_)
        waits[(missing & _BOX) // boxes.pieces] = True
        done = rows[~waits[rows]]
        if hits.size or missing.size:
            pace.tuner.answered(hits.size / (hits.size + missing.size), done.size / rows.size)
        yield from answers.alone(stream, done)
        if done.size:
            pace.done(arrived.segments_of(done))
        if missing.size:
            _wait(arrived, stream, np.flatnonzero(waits), missing, cache, waiting)
            if waiting.is_full:
                yield None  # let a join phase run
        del questions, hits, bases, missing, waits  # before the next part allocates as much


def _parts(
    index: LeafIndex, boxes: RelationBoxes, limit: int
) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Rows in key order with their boxes and leaves, in parts of at most ``limit`` questions."""
    pieces = boxes.pieces
    order, _ = argsorted(np.ascontiguousarray(boxes.lows[::pieces]))
    places = _boxes_of(order, pieces)
    first, stop = index.fences.ranges(boxes.lows[places], boxes.highs[places])
    total = np.cumsum((stop - first).reshape(-1, pieces).sum(axis=1))
    begin = 0
    while begin < order.size:
        before = int(total[begin - 1]) if begin else 0
        end = int(np.searchsorted(total, before + limit, side="right"))
        end = max(end, begin + 1)
        part = slice(begin * pieces, end * pieces)
        yield order[begin:end], places[part], first[part], stop[part]
        begin = end


def _boxes_of(rows: Array, pieces: int) -> Array:
    return rows if pieces == 1 else (rows[:, None] * pieces + np.arange(pieces)).ravel()


def _wait(
    arrived: ArrivedRows,
    stream: StreamRows,
    rows: Array,
    missing: Array,
    cache: BlockCache,
    waiting: StreamBuffer,
) -> None:
    """Move rows to the stream buffer and their questions to the inverted index."""
    pieces = stream.boxes.pieces
    held = arrived.batch.select(waiting.names)
    places = pa.array(rows)
    # Arrow cannot gather from views of strings.
    columns = [gatherable(column).take(places).cast(column.type) for column in held.columns]
    taken = pa.RecordBatch.from_arrays(columns, schema=held.schema)
    boxes = stream.boxes.take(_boxes_of(rows, pieces))
    numbers = np.empty(stream.matched.size, np.int64)
    numbers[rows] = np.arange(waiting.rows, waiting.rows + rows.size)
    box = missing & _BOX
    moved = (missing & ~_BOX) | (numbers[box // pieces] * pieces + box % pieces)
    cache.make_room(taken.nbytes + boxes.nbytes + moved.nbytes + rows.size)
    waiting.append(taken, boxes, moved, stream.matched[rows], arrived.segments_of(rows))
