"""A join at work: filled, warmed up, then timed; and the course on which joins race.

A join does some tuples untimed, which shows its speed; from that follows how many it does in the
time there is, rounded up to whole cycles of merges. The clock runs while pairs are asked for and
stands while they are counted. That is fair, as a join does nothing until it is asked: threads come
back before pairs are handed out.

Number and checksum of all pairs from the first tuple after the fill on must be those of the
reference.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from thetabench.arrays import Array, Flags
from thetabench.digest import Digest, VerificationError, mix, verify
from thetabench.figure import Sizes
from thetabench.pim.contestant import Cell, Contestant, Indexed, Joiner, make
from thetabench.pim.inserts import counted
from thetabench.pim.stream import Shape, Stream, truths
from thetabench.race import TURNS, Say, Trial, Values
from thetabench.windows import Reported, Sharing
from thetastream.plan.cost import Constants, predict

_FIRST = 64  # tuples of the first chunk, and a chunk's least
_CHUNK = 1 << 18  # tuples given to a join at a time: also what it queues at a time
_CHUNK_PAIRS = 1 << 24
_CHUNK_SECONDS = 0.25
_MOST_PAIRS = 1 << 26  # of a measurement, unless a cycle of merges has more: all are checked
_WARM = 0.1  # part of the timed seconds that shows the speed
_ENOUGH = 0.8  # part of them that must be reached; some joins gain speed with more tuples at a time
_QUANTILES = {"p50_us": 0.5, "p99_us": 0.99, "p999_us": 0.999, "max_us": 1.0}
_PEERS = {"btrees": "BTrees", "sortedcontainers": "sortedcontainers"}


class Joining(Trial[Contestant]):
    """A join, where it is in the stream, and what it has found so far."""

    def __init__(
        self, who: Contestant, cell: Cell, joiner: Joiner, stream: Stream, seconds: float
    ) -> None:
        super().__init__(who, cell.label)
        self.joiner = joiner
        self.stream = stream
        self.at = 0
        self.answer = Digest(0, 0)
        self._cell = cell
        self._chunk = _FIRST
        self._phases: list[Values] = []
        start = time.perf_counter()
        joiner.fill(*stream.fill())
        self._fill_seconds = time.perf_counter() - start
        legs = cell.shape.legs
        self._warm_up(seconds * _WARM, legs[0] / 4 if legs else float("inf"))

    def _warm_up(self, seconds: float, most: float) -> None:
        """Join more and more tuples until there is an idea of the speed, or ``most`` are done."""
        self._join(self._chunk)  # both sides merge, as they have been filled to the brim
        self._speed, spent = 0.0, 0.0
        while not self._speed or (spent < seconds and self.at + self._chunk <= most):
            self.restart()
            self._join(self.at + self._chunk)
            spent += self.seconds
            self._speed = max(self._speed, self.tuples / max(self.seconds, 1e-9))
        if isinstance(self.joiner, Indexed) and self.joiner.crew is not None:
            self.joiner.crew.forget()
        self.restart()

    def restart(self) -> None:
        """Set the clock, the counts and the steps to zero."""
        super().restart()
        self._first, self._before = self.at, self._spent()

    def turn(self, number: int, seconds: float) -> None:
        """Join a part of the tuples that fill the seconds; or a phase of a stream that drifts."""
        if legs := self.stream.shape.legs:
            self.restart()
            self._join(legs[number - 1])
            self._phases.append({**self.columns, "place": float(number)})
            return
        if number == 1:
            self._wanted = self._whole(seconds, self._speed)
        self._join(self._first + self._wanted * number // TURNS)
        short = self.seconds < _ENOUGH * seconds and self.pairs < _MOST_PAIRS
        if number == TURNS and short:
            speed = self.tuples / max(self.seconds, 1e-9)
            self._join(self.at + self._whole(seconds - self.seconds, speed))

    def _whole(self, seconds: float, speed: float) -> int:
        """How many tuples to time: for these seconds at least, in whole cycles of merges."""
        cycle = self.who.cycle(self.stream.shape)
        limit = int(_MOST_PAIRS / max(1.0, self.stream.shape.match_rate))
        return -(-max(_FIRST, min(int(seconds * speed), limit)) // cycle) * cycle

    def _join(self, stop: int, *, empty: bool = False) -> None:
        """Join up to a tuple; with ``empty`` boxes that hold nothing."""
        while self.at < stop:
            end, before = min(self.at + self._chunk, stop), self.seconds
            answer = self._asked(self.at, end, empty)
            self._adapt(end - self.at, self.seconds - before)
            self.tuples += end - self.at
            self.at = end
            self.pairs += answer.matches
            self.answer += answer

    def _asked(self, start: int, end: int, empty: bool) -> Digest:
        sides, keys = self.stream.tuples(start, end)
        boxes = self.stream.boxes(keys, empty=empty)

        def digest(positions: Array, numbers: Array) -> Digest:
            total = int(mix(positions + start, numbers).sum(dtype=np.uint64))
            return Digest(len(positions), total)

        return self.read(lambda: self.joiner.run(sides, keys, *boxes), digest)

    def _adapt(self, tuples: int, seconds: float) -> None:
        """Choose the next chunk: as large as can be, unless that takes too long."""
        if seconds > _CHUNK_SECONDS:
            self._chunk = max(_FIRST, self._chunk // 2)
        elif tuples == self._chunk and seconds < _CHUNK_SECONDS / 2:
            largest = min(_CHUNK, int(_CHUNK_PAIRS / max(1.0, self.stream.shape.match_rate)))
            self._chunk = min(2 * self._chunk, largest)

    # --- Numbers --------------------------------------------------------------------------------

    @property
    def columns(self) -> Values:
        """What was done since the clock was set to zero."""
        spent = {"ns_per_tuple": self.seconds * 1e9 / max(self.tuples, 1), "pairs": self.pairs}
        return {**super().columns, **spent}

    def lines(self) -> Iterator[Values]:
        """A line, or one per phase."""
        facts = {
            "fill_s": self._fill_seconds,
            "checked_tuples": self.checked,
            "checksum": f"{self.answer.checksum:016x}",
            "verified": self.checked > 0,
        }
        phases = self._phases or [self.columns]
        if isinstance(self.joiner, Indexed):
            size = self.joiner.index_bytes
            facts |= {"index_bytes": size, "bytes_per_row": size / self.stream.shape.rows}
            facts |= self._steps() | self._tasks(self.joiner)
        yield from ({**phase, **facts} for phase in phases)

    def _spent(self) -> dict[str, float]:
        """Nanoseconds since the beginning, by step."""
        if not self.who.steps or not isinstance(self.joiner, Indexed):
            return {}
        tuples = self.stream.shape.rows + self.at
        return {step: cost * tuples for step, cost in self.joiner.costs.items()}

    def _steps(self) -> Values:
        """Costs by step; then the same again with empty boxes, to tell searching from scanning."""
        if not self.who.steps:
            return {}
        spent = {step: ns - self._before[step] for step, ns in self._spent().items()}
        merges = self.who.merges(self.stream, self._first, self.at)
        costs = {f"ns_{step}": ns / self.tuples for step, ns in spent.items()}
        tuples = self.tuples // TURNS
        self.restart()
        self._join(self.at + tuples, empty=True)
        if self.pairs:
            raise VerificationError(
                f"{self.name} found {self.pairs} pairs in boxes that hold no key."
            )
        search = self._spent()["search"] - self._before["search"]
        down = min(search / self.tuples, costs["ns_search"])
        return {
            **costs,
            "ns_descend": down,
            "ns_scan": costs["ns_search"] - down,
            "merges": merges,
            "merge_ms": spent["merge"] / 1e6 / merges if merges else 0.0,
        }

    def _tasks(self, joiner: Indexed) -> Values:
        """Latencies: of all tasks, or of those during a merge where that is the question."""
        crew = joiner.crew
        if crew is None:
            return {}
        starts, ends = crew.tasks["start"], crew.tasks["end"]
        if self._cell.figure == "merge":
            during = overlapping(starts, ends, crew.merges)
            starts, ends = starts[during], ends[during]
        return {"merges": len(crew.merges), **latencies(starts, ends)}


def latencies(starts: Array, ends: Array) -> Values:
    """Quantiles of the microseconds per task, and how many tasks there were.

    >>> latencies(np.array([0, 0]), np.array([1000, 3000]))["max_us"]
    3.0
    """
    spent = (ends - starts) / 1e3
    if not spent.size:
        return {}
    quantiles = {name: float(np.quantile(spent, part)) for name, part in _QUANTILES.items()}
    return {"tasks": spent.size, **quantiles}


def overlapping(starts: Array, ends: Array, merges: Sequence[tuple[int, int, int]]) -> Flags:
    """Which tasks were under way while some merge was: ``merges`` are (side, start, end).

    >>> overlapping(np.array([0, 4, 9]), np.array([3, 6, 12]), [(0, 5, 8), (1, 1, 2)]).tolist()
    [True, True, False]
    """
    if not merges:
        return np.zeros(starts.size, np.bool_)
    times = np.array(sorted((start, end) for _, start, end in merges), np.int64)
    begun = np.searchsorted(times[:, 0], ends, side="left")  # merges that began before its end …
    latest = np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(times[:, 1])])
    return np.asarray(latest[begun] > starts)  # … the last of which ended after its start


Maker = Callable[[Contestant, Shape], Joiner]


class PimCourse(Sharing[Cell, Contestant]):
    """The stream of the present cell, and the reference."""

    def __init__(self, sizes: Sizes, maker: Maker = make) -> None:
        super().__init__(sizes)
        self._make = maker

    def _stream(self, cell: Cell) -> Stream:
        return self.shared(cell, lambda: Stream(cell.shape))

    def enter(self, cell: Cell, who: Contestant, say: Say) -> Trial[Contestant]:
        """A join with full windows that has shown its speed."""
        stream = self._stream(cell)
        if cell.figure == "13a":
            return Reported(who, cell.label, [counted(stream, who)])
        joiner = self._make(who, cell.shape)
        return Joining(who, cell, joiner, stream, self.sizes.seconds * cell.weight)

    def check(self, cell: Cell, trials: Sequence[Trial[Contestant]]) -> None:
        """Compare every join with the reference, which goes through the stream once for all."""
        joined = [trial for trial in trials if isinstance(trial, Joining)]
        if joined:
            right = truths(self._stream(cell), {trial.at for trial in joined})
            for trial in joined:
                verify(trial.name, [trial.answer], [right[trial.at]], "answer")
                trial.checked = trial.at

    def packages(self, cell: Cell, who: Contestant) -> Sequence[str]:
        """The package of an ordered set."""
        return [_PEERS[who.structure]] if who.structure in _PEERS else []

    def about(self, cell: Cell, who: Contestant) -> Values:
        """The workload and the settings; what the cost model says, where that is the question."""
        shape = cell.shape
        return {
            "structure": who.structure,
            "window": shape.window,
            "window_right": shape.windows[1],
            "self_join": shape.self_join,
            "threads": who.threads,
            "task_size": who.task_size,
            "merge": who.merge,
            "parameters": who.settings,
            "distribution": "gaussian" if shape.drift is not None else shape.distribution,
            "match_rate": shape.match_rate,
            "share": shape.share,
            **(_predicted(who, shape) if cell.figure == "cost" else {}),
        }


def _predicted(who: Contestant, shape: Shape) -> Values:
    """The model's nanoseconds per tuple, in all and by step.

    What is measured is a whole join, so what a tuple costs besides its index is added too.
    """
    constants = Constants.load()
    parameters = dict(who.parameters)
    cost = predict(
        who.structure, shape.window, shape.match_rate, parameters=parameters, constants=constants
    )
    steps = {f"predicted_{step}": spent for step, spent in cost.as_dict().items()}
    return {
        "predicted_ns": cost.total + constants.window,
        "constants": constants.source,
        **steps,
    }
