"""Automatic thresholds: how many rows to wait for, and how much to read at once.

The budget of a join is shared by rows that arrived (``input_rows``, IB_thresh of the paper), rows
that wait for a read (``stream_rows``, SB_thresh), the buffer of one read (``max_scan`` leaves) and
the cache, which gets the rest. With more waiting rows, more rows share a read; with a larger cache,
fewer rows wait; longer reads save seeks (SSIJ, Sections IV-B and VI-D, Figures 12, 13 and 15).

The first thresholds are those of the paper's Table II, bounded by the budget. After some questions,
a model of one cycle, from a join phase to the next, chooses the thresholds with the least seconds
per stream row among some 180 candidates:

- the cache holds the most popular leaves (``Popularity``), so a question is a hit with probability
  ``h``, and a row waits with ``w = 1 - h^a``, where ``a`` is between 1 and its number of questions,
  ``q``: neighbours are asked and cached together (``answered``);
- a cycle sees ``R = stream_rows / w`` rows, and reads each leaf of popularity ``f`` that is not
  cached with ``1 - exp(-R q f)``: Poisson's estimate of distinct leaves;
- in a part of the relation where these have density ``p``, gaps are geometric. A gap that costs
  less than a seek is read, as in the plan (Section IV-D); ``max_scan`` cuts longer sequences.

``input_rows`` follows from the same model: cheap rows are looked up in large batches; if a row
costs much reading anyway, memory is better used for other things.

If the minimum is flat, as in Figure 13, the smallest ``stream_rows`` within 2 % wins: rows wait
less, and the cache adapts to a changing stream; then the longest read, which suits a cold cache.
The last choice is kept while it is within 3 % of the best, so that the cache is not emptied for
nothing. A decision costs less than 1 ms, whatever the sizes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from thetastream._jit.arrays import Array, Floats
from thetastream.relation.pacing.popularity import LeafSample, Popularity

# Table II of the paper. The smaller stream buffer is for a memory of 1 % of the relation.
_INPUT_ROWS = 250_000
_STREAM_ROWS = 1_000_000
_STREAM_ROWS_SMALL = 400_000
_MAX_SCAN = 200

_ENOUGH = 512  # questions before the model replaces the paper's values
_STREAM_GRID = 16
_SCAN_GRID = 10
_WIDE_GRID = 24
_FLAT = 1.02
_EQUAL = 1.002
_STAY = 1.03
_PHASE_SECONDS = 2e-3  # overhead of a join phase
_ROW_SECONDS = 5e-7  # overhead of a row
_LEAF_SECONDS = 4e-6  # of joining a leaf
_ONLINE_SECONDS = 1e-3  # overhead of an online phase
_INPUT_SHARE = 0.1  # of the memory, at most, for arriving rows
_MOST_ROWS = 1 << 24


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The chosen thresholds, and the reason in one sentence."""

    input_rows: int
    """Rows that arrive before they are looked up."""
    stream_rows: int
    """Rows that wait before leaves are read for them."""
    max_scan: int
    """Blocks that one read may span."""
    why: str


@dataclass(frozen=True, slots=True)
class _Forecast:
    """A cycle for each choice of the grid."""

    seconds: Floats  # per stream row
    hits: Floats
    cached: Floats
    wanted: Floats  # leaves read because rows asked for them
    seeks: Floats


class Tuner:
    """Chooses thresholds from a budget, costs and the questions of the stream.

    ``budget`` is the memory of the join, ``fixed`` the part that does not depend on the choice
    (fences, output); both in bytes. ``buffers`` is the number of read buffers, 2 if one is filled
    while another is used. The tuner itself holds ``nbytes``: at most a 128th of the budget, or
    4 kB.

    >>> tuner = Tuner(1_600_000, 100_000, 8192, 20_000, seek=8.5e-3, transfer=5.5e-5)
    >>> start = tuner.thresholds(row_bytes=50, waiting_bytes=80)
    >>> start.input_rows, start.stream_rows, start.max_scan
    (3000, 9375, 45)
    """

    def __init__(
        self,
        budget: int,
        fixed: int,
        block_bytes: int,
        leaves: int,
        seek: float,
        transfer: float,
        *,
        row_bytes: float = 64.0,
        buffers: int = 1,
    ) -> None:
        self._budget = budget
        self._block_bytes = block_bytes
        self._scan_bytes = buffers * block_bytes  # per block of a read
        self._leaves = max(leaves, 1)
        self._seek = seek
        self._transfer = transfer
        self._row_bytes = row_bytes
        self._sample = LeafSample(self._leaves, min(max(budget // 512, 1024), 16_384))
        self._popularity: Popularity | None = None
        self._questions = 1.0  # per row
        self._apart = 1.0  # number of questions that are hits or misses independently
        self._last: tuple[int, int] | None = None
        self._input = float(_INPUT_ROWS)
        self.fixed = fixed
        """Bytes that do not depend on the choice; may be changed."""
        self.nbytes = self._sample.nbytes

    def see(self, leaves: Array, rows: int | None = None) -> None:
        """Learn which leaves an online phase asked for, hits and misses.

        ``rows`` is the number of stream rows that asked, if different. O(1): only a sample is used.
        """
        if leaves.size == 0:
            return
        self._sample.add(leaves)
        self._popularity = None
        if rows:
            self._questions += 0.2 * (max(leaves.size / rows, 1.0) - self._questions)

    def answered(self, hits: float, done: float) -> None:
        """Learn the share of questions that were hits, and of rows all of whose questions were.

        Adjacent leaves are asked and cached together, so a row with eight questions is not eight
        times as likely to wait: ``done`` is ``hits`` to the power of its independent questions.
        """
        if 0.02 < hits < 0.98 and 0.0 < done < 1.0:
            apart = min(max(np.log(done) / np.log(hits), 1.0), max(self._questions, 1.0))
            self._apart += 0.2 * (float(apart) - self._apart)

    def thresholds(self, row_bytes: float = 0.0, waiting_bytes: float = 0.0) -> Thresholds:
        """Choose thresholds. A size of 0 means unknown.

        ``row_bytes`` is the size of a row that has arrived, ``waiting_bytes`` that of a waiting
        row with its entries in the inverted index.
        """
        row_bytes = row_bytes if row_bytes > 0.0 else self._row_bytes
        waiting_bytes = waiting_bytes if waiting_bytes > 0.0 else row_bytes + 16.0
        free = max(self._budget - self.fixed, 4 * self._block_bytes)
        if self._sample.count < _ENOUGH:
            return self._paper(free, row_bytes, waiting_bytes)
        return self._chosen(free, row_bytes, waiting_bytes)

    def _paper(self, free: float, row_bytes: float, waiting_bytes: float) -> Thresholds:
        """Table II, bounded: a tenth of memory for arrivals, half for waits, a quarter per read."""
        small = self._budget < 0.02 * self._leaves * self._block_bytes
        stream = _STREAM_ROWS_SMALL if small else _STREAM_ROWS
        return Thresholds(
            input_rows=_whole(_INPUT_SHARE * free / row_bytes, _INPUT_ROWS),
            stream_rows=_whole(0.5 * free / waiting_bytes, stream),
            max_scan=_whole(0.25 * free / self._scan_bytes, min(_MAX_SCAN, self._leaves)),
            why="the paper's Table II, bounded by the budget, until the stream is known better.",
        )

    def _chosen(self, free: float, row_bytes: float, waiting_bytes: float) -> Thresholds:
        most = max(_INPUT_SHARE * free / row_bytes, 1.0)
        input_rows = _whole(min(self._input, most), _INPUT_ROWS)
        room = max(free - input_rows * row_bytes, 0.5 * free)
        stream, scan = self._grid(room, waiting_bytes)
        memory = room - stream * waiting_bytes - scan * self._scan_bytes
        forecast = self._forecast(stream, scan, np.maximum(memory / self._block_bytes, 0.0))
        # Choices that do not fit are excluded, except the smallest one.
        seconds = np.where(memory >= 0.0, forecast.seconds, np.inf)
        at = self._pick(stream, scan, seconds) if np.isfinite(seconds).any() else 0
        self._last = (int(stream[at]), int(scan[at]))
        # For the next time. An online phase has a fixed cost, and memory for its rows is missing
        # elsewhere: if everything is read repeatedly, seconds fall with the square of the memory,
        # so that rows cost twice their share of them.
        price = 2.0 * forecast.seconds[at] * row_bytes / room
        self._input = max(32.0, float(np.sqrt(_ONLINE_SECONDS / price)))
        self._sample.end_period()
        why = _sentence(forecast, at, self._last[0], int(stream.max()))
        return Thresholds(input_rows, *self._last, why)

    def _grid(self, room: float, waiting_bytes: float) -> tuple[Floats, Floats]:
        """All choices, as two flat arrays.

        Both grow geometrically. Rows get at least a fiftieth of the memory, so that a cold cache
        fills in few phases. The choices without a cache, and the last choice, are added.
        """
        most = min(max(0.95 * room / waiting_bytes, 1.0), float(_MOST_ROWS))
        least = min(max(0.02 * room / waiting_bytes, 16.0), 65_536.0, most)
        widest = min(max(0.5 * room / self._scan_bytes, 1.0), 4096.0, float(self._leaves))
        stream = np.floor(np.geomspace(least, most, _STREAM_GRID))
        scan = np.floor(np.geomspace(min(4.0, widest), widest, _SCAN_GRID))
        wide = np.floor(np.geomspace(min(4.0, widest), widest, _WIDE_GRID))
        rest = np.floor((room - wide * self._scan_bytes) / waiting_bytes)
        last = self._last or (int(least), int(widest))
        return (
            np.concatenate([np.repeat(stream, scan.size), np.clip(rest, least, most), [last[0]]]),
            np.concatenate([np.tile(scan, stream.size), wide, [last[1]]]),
        )

    def _forecast(self, stream: Floats, scan: Floats, cached: Floats) -> _Forecast:
        """Model one cycle for each choice; see the module."""
        if self._popularity is None:
            self._popularity = self._sample.summary()
        known = self._popularity
        before = np.cumsum(known.leaves) - known.leaves
        outside = 1.0 - np.clip((cached[:, None] - before) / known.leaves, 0.0, 1.0)
        hits = np.clip(1.0 - outside @ (known.share * known.leaves), 0.0, 1.0)
        waits = np.maximum(1.0 - hits**self._apart, 1e-9)
        rows = stream / waits
        asked = -np.expm1(-(rows * self._questions)[:, None] * known.share)
        wanted = (outside * asked) @ known.places  # per choice and part
        density = np.clip(wanted * (wanted.shape[1] / self._leaves), 1e-12, 1.0)
        gap = 1.0 + self._seek / max(self._transfer, 1e-12)
        reach = np.minimum(gap, scan)[:, None]
        broken = np.exp(reach * np.log1p(-np.minimum(density, 1.0 - 1e-12)))
        blocks = (1.0 - broken) / density - reach * broken + broken  # per wanted leaf
        seeks = np.minimum(broken + blocks / scan[:, None], 1.0)
        seeks, blocks = (wanted * seeks).sum(axis=1), (wanted * blocks).sum(axis=1)
        total = wanted.sum(axis=1)
        spent = seeks * self._seek + blocks * self._transfer + total * _LEAF_SECONDS
        return _Forecast(_ROW_SECONDS + (spent + _PHASE_SECONDS) / rows, hits, cached, total, seeks)

    def _pick(self, stream: Floats, scan: Floats, seconds: Floats) -> int:
        best = float(seconds.min())
        if self._last is not None and seconds[-1] <= best * _STAY:
            return int(seconds.size) - 1
        flat = np.flatnonzero(seconds <= best * _FLAT)
        fewest = flat[stream[flat] == stream[flat].min()]
        equal = fewest[seconds[fewest] <= seconds[fewest].min() * _EQUAL]
        return int(equal[np.argmax(scan[equal])])


def _whole(count: float, most: int) -> int:
    return max(1, min(int(count), most))


def _sentence(forecast: _Forecast, at: int, rows: int, most: int) -> str:
    return (
        f"the least time per row, about {forecast.seconds[at] * 1e6:,.3g} µs, is expected with "
        f"{rows:,} waiting rows (of {most:,} that fit): {forecast.cached[at]:,.0f} cached leaves "
        f"answer {forecast.hits[at]:.0%} of the questions, and a phase reads "
        f"{forecast.wanted[at]:,.0f} leaves in {max(forecast.seeks[at], 1.0):,.0f} sequences."
    )
