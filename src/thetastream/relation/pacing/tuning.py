"""How many rows to wait for and how much to read at once: thresholds that choose themselves.

The budget of a join is shared by rows that arrived (``input_rows``, IB_thresh of the paper), rows
that wait for a read (``stream_rows``, SB_thresh), the buffer of one read (``max_scan`` leaves) and
the cache, which gets the rest. More waiting rows share a read; a larger cache makes fewer rows
wait; longer reads save seeks (SSIJ, Sections IV-B and VI-D, Figures 12, 13 and 15).

It starts with the paper's Table II, bounded by the budget. As soon as some questions were seen,
the thresholds are those with the least seconds per stream row in a model of one cycle,
from a join phase to the next, over some 180 choices:

- the cache holds the most asked leaves (``Popularity``), so a question is a hit with probability
  ``h``, and a row waits with ``w = 1 - h^a``, where ``a`` is between 1 and its number of questions,
  ``q``: neighbours are asked and cached together (``answered``);
- a cycle sees ``R = stream_rows / w`` rows, and reads each leaf of popularity ``f`` that is not
  cached with ``1 - exp(-R q f)``: Poisson's estimate of distinct leaves;
- in a part of the relation where these have density ``p``, gaps are geometric. A gap that costs
  less than a seek is read over, as the plan does (Section IV-D); ``max_scan`` cuts what is longer.

``input_rows`` follows from the same model: cheap rows are looked up in large batches, and where a
row costs much reading anyway, memory is better used for others.

Where the least is flat, as in Figure 13, the smallest ``stream_rows`` within 2 % wins: rows wait
less, and the cache takes up what moves; then the longest read, good for a cold cache. The last
choice stays while it is within 3 % of the best, so that the cache is not emptied for nothing. Cost
of a decision: below 1 ms, whatever the sizes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
_PHASE_SECONDS = 2e-3  # of a phase, whatever it reads
_ROW_SECONDS = 5e-7  # of a row, whatever it asks
_LEAF_SECONDS = 4e-6  # of a leaf that is joined
_ONLINE_SECONDS = 1e-3  # of an online phase, whatever it looks up
_INPUT_SHARE = 0.1  # of the memory at most for rows that arrive
_MOST_ROWS = 1 << 24


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What was chosen, and why in one sentence."""

    input_rows: int
    """Rows that arrive before they are looked up."""
    stream_rows: int
    """Rows that wait before leaves are read for them."""
    max_scan: int
    """Blocks that one read may span."""
    why: str


@dataclass(frozen=True, slots=True)
class _Forecast:
    """A cycle, for each choice of the grid."""

    seconds: npt.NDArray[np.float64]  # per stream row
    hits: npt.NDArray[np.float64]
    cached: npt.NDArray[np.float64]
    wanted: npt.NDArray[np.float64]  # leaves read because rows asked for them
    seeks: npt.NDArray[np.float64]


class Tuner:
    """Chooses thresholds from a budget, costs and the questions of the stream.

    ``budget`` is all the memory of the join, ``fixed`` what is used whatever is chosen (fences,
    output); both in bytes. ``buffers`` are held for reads, 2 where one is filled while another is
    used. ``nbytes`` is what the tuner itself holds: a 128th of the budget at most,
    or 4 kB.

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
        self._apart = 1.0  # so many of them are hits or misses for themselves
        self._last: tuple[int, int] | None = None
        self._input = float(_INPUT_ROWS)
        self.fixed = fixed
        """Bytes that are used whatever is chosen; may be set anew."""
        self.nbytes = self._sample.nbytes

    def see(self, leaves: npt.NDArray[np.int64], rows: int | None = None) -> None:
        """Learn which leaves an online phase asked for, hits and misses.

        ``rows`` is how many stream rows asked, when that is another number. Cost O(1): only a
        sample is looked at.
        """
        if leaves.size == 0:
            return
        self._sample.add(leaves)
        self._popularity = None
        if rows:
            self._questions += 0.2 * (max(leaves.size / rows, 1.0) - self._questions)

    def answered(self, hits: float, done: float) -> None:
        """Learn which share of questions were hits, and of rows that asked only such ones.

        Leaves that lie together are asked and cached together, so a row that asks eight of them
        does not wait eight times as likely: ``done`` is ``hits`` to the power of what is apart.
        """
        if 0.02 < hits < 0.98 and 0.0 < done < 1.0:
            found = min(max(np.log(done) / np.log(hits), 1.0), max(self._questions, 1.0))
            self._apart += 0.2 * (float(found) - self._apart)

    def thresholds(self, row_bytes: float = 0.0, waiting_bytes: float = 0.0) -> Thresholds:
        """Choose anew. A size of 0 means: not known yet.

        ``row_bytes`` is what a row takes that has arrived, ``waiting_bytes`` what one takes that
        waits, with its entries in the inverted index.
        """
        row_bytes = row_bytes if row_bytes > 0.0 else self._row_bytes
        waiting_bytes = waiting_bytes if waiting_bytes > 0.0 else row_bytes + 16.0
        free = max(self._budget - self.fixed, 4 * self._block_bytes)
        if self._sample.count < _ENOUGH:
            return self._paper(free, row_bytes, waiting_bytes)
        return self._chosen(free, row_bytes, waiting_bytes)

    def _paper(self, free: float, row_bytes: float, waiting_bytes: float) -> Thresholds:
        """Table II, bounded.

        At most a tenth of the memory is for arrivals, a half for waiting rows, a quarter for one
        read.
        """
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
        # What does not fit is no choice, but the least of everything always is.
        seconds = np.where(memory >= 0.0, forecast.seconds, np.inf)
        at = self._pick(stream, scan, seconds) if np.isfinite(seconds).any() else 0
        self._last = (int(stream[at]), int(scan[at]))
        # For the next time. An online phase costs something for few rows and for many, and memory
        # for its rows is missing elsewhere: where everything is read over and over, seconds fall
        # with the square of the memory, so that rows take twice their share of them.
        price = 2.0 * forecast.seconds[at] * row_bytes / room
        self._input = max(32.0, float(np.sqrt(_ONLINE_SECONDS / price)))
        self._sample.end_period()
        why = _sentence(forecast, at, self._last[0], int(stream.max()))
        return Thresholds(input_rows, *self._last, why)

    def _grid(
        self, room: float, waiting_bytes: float
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """All choices, as two flat arrays.

        Both grow geometrically. A fiftieth of the memory for rows is the least, so that a cold
        cache fills by few phases. The choices without any cache, and the last one, are added.
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

    def _forecast(
        self,
        stream: npt.NDArray[np.float64],
        scan: npt.NDArray[np.float64],
        cached: npt.NDArray[np.float64],
    ) -> _Forecast:
        """Model one cycle for each choice; see the head of the module."""
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
        blocks = (1.0 - broken) / density - reach * broken + broken  # per leaf that is wanted
        seeks = np.minimum(broken + blocks / scan[:, None], 1.0)
        seeks, blocks = (wanted * seeks).sum(axis=1), (wanted * blocks).sum(axis=1)
        total = wanted.sum(axis=1)
        spent = seeks * self._seek + blocks * self._transfer + total * _LEAF_SECONDS
        return _Forecast(_ROW_SECONDS + (spent + _PHASE_SECONDS) / rows, hits, cached, total, seeks)

    def _pick(
        self,
        stream: npt.NDArray[np.float64],
        scan: npt.NDArray[np.float64],
        seconds: npt.NDArray[np.float64],
    ) -> int:
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
