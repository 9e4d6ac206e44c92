"""The chain of subwindows: a window cut by arrival, dropped piece by piece.

    arrival ─────────────────────────────────────────────────►
            ┌ · · · · ┬─────────┬─────────┬─────────┬────┐
            · dropped │ oldest  │ closed  │ closed  │ newest ◄── inserts
            └ · · · · ┴─────────┴─────────┴─────────┴────┘
                        │                    ▲
                        rows that have       └─ late: rows whose event time lies in a closed
                        expired are passed      subwindow, in a small sorted buffer beside it
                        over

PanJoin, Sections III-A and III-G. A full subwindow has ``ceil(capacity / subwindows)`` rows; when
more rows stay than the capacity said (time windows), new ones are made larger, so that there are
never many more than ``subwindows``. What is inside a subwindow is a ``Subwindow``: that is what the
registered structures differ in.

Count-based windows expire by id. Time-based ones expire by id too, where rows come in the order of
their event time; rows that come late would keep the subwindow they came in alive. So with ``times``
given, every closed subwindow ends at a point in time (*cut*), a row goes to the subwindow of its
event time, and ``expire_older`` drops subwindows by their cut.

Invariants (``check``): those of each structure; all subwindows but the newest are closed; cuts
ascend; an id occurs once; a subwindow whose ids have all expired is gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from itertools import count, pairwise
from typing import Any, ClassVar
from weakref import WeakSet

import numpy as np

from thetastream._jit.arrays import Array
from thetastream._jit.compiling import prepare
from thetastream.index.base import CHUNK, Answer, Index, Ranges
from thetastream.index.registry import checked
from thetastream.index.runs.kernels import ranges
from thetastream.index.subwindows import kernels
from thetastream.index.subwindows.bi_sorted import BiSorted, SortedView
from thetastream.index.subwindows.part import Part, PartView
from thetastream.index.subwindows.procedure import (
    Create,
    Expire,
    Insert,
    Status,
    SubwindowProbe,
    Worker,
    workers,
)
from thetastream.index.subwindows.subwindow import Subwindow
from thetastream.index.threads import Found, pool

_LATE_ROWS = 1024  # of a subwindow's late buffer at first; it grows
_LATE_STEP = 32
_windows = count()


@dataclass
class Observed:
    """What was seen of the traffic since the newest subwindow was made."""

    inserts: int = 0
    rows: int = 0
    probes: int = 0
    boxes: int = 0
    asked: float = 0.0  # boxes, by the share of a full subwindow that they were asked of
    found: float = 0.0  # pairs of these
    batch: float = 0.0  # rows per insert
    selectivity: float = 0.0  # matches per box in a full subwindow
    boxes_per_row: float = 1.0  # as long as nothing is known
    boxes_per_probe: float = 0.0  # 0: nobody has asked yet
    settled: bool = False

    def ask(self, boxes: int) -> None:
        """Take note of a probe."""
        self.probes += 1
        self.boxes += boxes

    def add(self, boxes: int, share: float, pairs: int) -> None:
        """Take note of an answer."""
        self.asked += boxes * share
        self.found += pairs

    def settle(self) -> None:
        """Begin anew; figures without news stay."""
        if self.inserts:
            self.batch = self.rows / self.inserts
        if self.inserts and self.settled:  # before the first subwindow there is nothing to ask
            self.boxes_per_row = self.boxes / self.rows
        if self.probes and self.settled:
            self.boxes_per_probe = self.boxes / self.probes
        if self.asked:
            self.selectivity = self.found / self.asked
        self.settled = True
        self.inserts = self.rows = self.probes = self.boxes = 0
        self.asked = self.found = 0.0


@dataclass(eq=False)
class _Link:
    """A subwindow in the chain."""

    key: tuple[int, int]
    worker: Worker
    part: Part
    late: Part | None = None
    cut: int | None = None  # the largest event time of a closed subwindow

    @property
    def last(self) -> int:
        """The largest id."""
        return max(self.part.last, -1 if self.late is None else self.late.last)

    @property
    def parts(self) -> list[Part]:
        return [self.part] if self.late is None else [self.part, self.late]


@dataclass(eq=False)
class _Question:
    """Boxes, and the views they are asked of; held by whoever reads the answer."""

    views: list[tuple[Worker, PartView, float]]
    lows: Array
    highs: Array
    limit: int
    running: list[Future[Found]] = field(default_factory=list)


class Chain(Index):
    """A window index as a chain of subwindows. Subclasses say what is inside one."""

    timed: ClassVar[bool] = True
    in_subwindows: ClassVar[bool] = True

    def __init__(
        self, capacity: int, columns: int, subwindows: int, threads: int, workers: int
    ) -> None:
        super().__init__(capacity, columns)
        checked(self.name, subwindows=(subwindows, 1), threads=(threads, 1), workers=(workers, 1))
        prepare(kernels, ranges)
        self.subwindows = subwindows
        self.threads = threads
        self.workers = workers
        self.observed = Observed()
        self._window = next(_windows)
        self._numbers = count()
        self._links: list[_Link] = []
        self._dropped: Counter[str] = Counter()
        self._pending: list[Future[Status]] = []
        self._questions: WeakSet[_Question] = WeakSet()
        self._before = 0
        self._next = 0
        self._newest_time: int | None = None
        self._switches = 0

    # --- What is inside -------------------------------------------------------------------------

    def make(self, size: int, previous: Subwindow | None, keys: Array) -> Subwindow:
        """A new subwindow; ``previous`` is the one just closed, ``keys`` the first to come."""
        raise NotImplementedError

    def closed(self, inside: Subwindow) -> None:
        """A subwindow is full: a chance to learn from it."""

    def outgrown(self, inside: Subwindow) -> bool:
        """Whether the newest subwindow should take no more rows, though it has room.

        Only of structures that need not be told that they are closed.
        """
        return False

    # --- Changing -------------------------------------------------------------------------------

    def insert(self, keys: Array, ids: Array, times: Array | None = None) -> None:
        """What the structure costs per row; a sort, unless keys ascend."""
        matrix = self._matrix(keys)
        if not ids.size:
            return
        self._quiet()
        ids = np.ascontiguousarray(ids, np.int64)
        if not np.all(matrix[0, :-1] <= matrix[0, 1:]):
            order = np.argsort(matrix[0])
            matrix, ids = np.ascontiguousarray(matrix[:, order]), ids[order]
            times = None if times is None else times[order]
        self.observed.inserts += 1
        self.observed.rows += ids.size
        self._next = max(self._next, int(ids.max()) + 1)
        if times is not None:
            matrix, ids = self._without_late(matrix, ids, times)
        while ids.size:
            matrix, ids = self._fill(matrix, ids)
        self._feedback()
        self._drop(lambda link: link.last < self._before)

    def _fill(self, matrix: Array, ids: Array) -> tuple[Array, Array]:
        """Give the newest subwindow what it has room for, by arrival; gives the rest."""
        newest = self._newest(matrix[0])
        room = newest.part.inside.size - newest.part.rows
        if ids.size < room:
            self._send(newest, matrix, ids, close=False)
            return matrix[:, :0], ids[:0]
        last = np.partition(ids, room - 1)[room - 1] if ids.size > room else ids.max()
        now = ids <= last
        self._send(newest, np.ascontiguousarray(matrix[:, now]), ids[now], close=True)
        self._feedback()
        newest.cut = self._newest_time
        self.closed(newest.part.inside)
        return np.ascontiguousarray(matrix[:, ~now]), ids[~now]

    def _newest(self, keys: Array) -> _Link:
        last = self._links[-1] if self._links else None
        if last is not None and last.part.rows < last.part.inside.size:
            if not self.outgrown(last.part.inside):
                return last
            last.part.inside.size = last.part.rows
            last.cut = self._newest_time
        if last is None or last.part.rows >= last.part.inside.size:
            previous = None if last is None else last.part.inside
            self.observed.settle()
            stored = sum(link.part.rows for link in self._links)
            size = max(-(-self.capacity // self.subwindows), stored // self.subwindows)
            inside = self.make(size, previous, keys)
            self._switches += previous is not None and previous.kind != inside.kind
            number = next(self._numbers)
            crew = workers(self.workers)
            part = Part(inside, self.columns)
            last = _Link((self._window, number), crew[number % len(crew)], part)
            self._links.append(last)
            self._pending.append(last.worker.send(Create(last.key, part)))
        return last

    def _send(self, link: _Link, matrix: Array, ids: Array, *, close: bool) -> None:
        self._pending.append(link.worker.send(Insert(link.key, matrix, ids, close)))

    def _feedback(self) -> None:
        """Wait for what was sent."""
        pending, self._pending = self._pending, []
        for feedback in pending:
            feedback.result()

    def _quiet(self) -> None:
        """Before a change: wait for workers that still compute pairs from what will change."""
        for question in list(self._questions):
            for job in question.running:
                job.exception()

    def _without_late(self, matrix: Array, ids: Array, times: Array) -> tuple[Array, Array]:
        """Rows whose event time lies in a closed subwindow go to its buffer; gives the others."""
        ended = [link for link in self._links if link.cut is not None]
        cuts = np.array([link.cut for link in ended], np.int64)
        place = np.searchsorted(cuts, times)
        for at in np.unique(place[place < cuts.size]).tolist():
            mine = place == at
            self._add_late(ended[at], np.ascontiguousarray(matrix[:, mine]), ids[mine])
        on_time = place == cuts.size
        if on_time.any():
            top = int(times[on_time].max())
            self._newest_time = top if self._newest_time is None else max(self._newest_time, top)
        if on_time.all():
            return matrix, ids
        return np.ascontiguousarray(matrix[:, on_time]), ids[on_time]

    def _add_late(self, link: _Link, matrix: Array, ids: Array) -> None:
        if link.late is None:
            parts = _LATE_ROWS // _LATE_STEP
            link.late = Part(BiSorted(_LATE_ROWS, parts, _LATE_ROWS // 4, None), self.columns)
        link.late.insert(matrix, ids)

    def expire(self, before: int) -> None:
        """O(subwindows): those that have expired as a whole are dropped."""
        if before > self._before:
            self._before = before
            self._drop(lambda link: link.last < before)

    def expire_older(self, time: int) -> None:
        """O(subwindows): closed ones whose event times have all passed are dropped."""
        self._drop(lambda link: link.cut is not None and link.cut < time)

    def _drop(self, gone: Callable[[_Link], bool]) -> None:
        for link in [link for link in self._links if gone(link)]:
            self._links.remove(link)
            self._pending.append(link.worker.send(Expire(link.key)))
            for part in link.parts:
                self._dropped.update(part.inside.work)
        self._feedback()

    # --- Asking ---------------------------------------------------------------------------------

    def probe(self, lows: Array, highs: Array, *, limit: int = CHUNK) -> Answer:
        """What the structure costs per box and subwindow, as the answer is read."""
        question = _Question(self._views(), self._matrix(lows), self._matrix(highs), limit)
        self._questions.add(question)
        return Answer(partial(self._read, question))

    def _views(self) -> list[tuple[Worker, PartView, float]]:
        """All parts as they are now, with the share of a full subwindow that each has."""
        found = []
        for link in self._links:
            for part in link.parts:
                share = part.rows / link.part.inside.size
                for view in part.views(self._before, self._next):
                    found.append((link.worker, view, share))
                    share = 0.0  # counted with the first of its views
        return found

    def _read(self, question: _Question) -> Iterator[tuple[Array, Array]]:
        boxes = question.lows.shape[1]
        self.observed.ask(boxes)
        for share, found in self._found(question):
            pairs = 0
            for chunk in found:
                pairs += chunk[0].size
                yield chunk
            self.observed.add(boxes, share, pairs)

    def _found(self, question: _Question) -> Iterator[tuple[float, Iterator[tuple[Array, Array]]]]:
        """The pairs of each view, in order; with several threads they are computed ahead."""
        boxes = question.lows.shape[1]
        several = self.workers > 1 or self.threads > 1
        edges = np.linspace(0, boxes, (self.threads if boxes > 1 else 1) + 1).astype(np.int64)
        sent: list[tuple[float, list[Future[Found]]]] = []
        for worker, view, share in question.views:
            probes = [
                SubwindowProbe(view, question.lows, question.highs, question.limit, a, b)
                for a, b in pairwise(edges.tolist())
            ]
            if several:
                jobs = [self._ask(worker, probe) for probe in probes]
                question.running += jobs
                sent.append((share, jobs))
            else:
                yield share, iter(probes[0].found())
        for share, jobs in sent:
            yield share, (pair for job in jobs for pair in job.result())
        question.running.clear()

    def _ask(self, worker: Worker, probe: SubwindowProbe) -> Future[Found]:
        threads = pool(self.threads)
        if self.workers > 1 or threads is None:
            return worker.ask(probe)
        return threads.submit(probe.run)

    def _ranges(self, lows: Array, highs: Array) -> Ranges:
        """Records of all subwindows, where these keep sorted arrays."""
        low, high = self._matrix(lows)[0], self._matrix(highs)[0]
        views = self._views()
        self.observed.ask(low.size)
        starts, stops = (np.empty((len(views), low.size), np.int64) for _ in range(2))
        held: list[Array] = []
        for at, (_, view, share) in enumerate(views):
            assert isinstance(view.view, SortedView)
            starts[at], stops[at], ids = view.view.live(low, high)
            held.append(ids)
            self.observed.add(low.size, share, int((stops[at] - starts[at]).sum()))
        # The views live on with the answer: while they do, no array is merged where it lies.
        return Ranges.of(starts, stops, held, views)

    def _counts(self, lows: Array, highs: Array) -> Array:
        """Matches per box, where subwindows keep sorted arrays."""
        low, high = self._matrix(lows)[0], self._matrix(highs)[0]
        counts = np.zeros(low.size, np.int64)
        self.observed.ask(low.size)
        for _, view, share in self._views():
            assert isinstance(view.view, SortedView)
            self.observed.add(low.size, share, view.view.count(low, high, counts))
        return counts

    # --- Facts ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        """O(rows) of the subwindows in which some have expired."""
        return sum(part.living(self._before) for link in self._links for part in link.parts)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for link in self._links for part in link.parts)

    @property
    def parameters(self) -> dict[str, Any]:
        return {
            **super().parameters,
            "subwindows": self.subwindows,
            "threads": self.threads,
            "workers": self.workers,
        }

    @property
    def statistics(self) -> dict[str, float]:
        total = Counter({"merges": 0, "merged_rows": 0, "merge_seconds": 0.0})
        total.update(self._dropped)
        for link in self._links:
            for part in link.parts:
                total.update(part.inside.work)
        return {"runs": len(self._links), "switches": self._switches, **total}

    @property
    def details(self) -> dict[str, Any]:
        return {
            "subwindows": [
                {
                    "structure": link.part.inside.kind,
                    "rows": link.part.rows,
                    "late rows": 0 if link.late is None else link.late.rows,
                    "why": link.part.inside.why or "as asked for",
                }
                for link in self._links
            ],
        }

    def dump(self) -> tuple[Array, Array]:
        found = [part.dump() for link in self._links for part in link.parts]
        keys = np.concatenate([np.empty((self.columns, 0), np.int64), *(k for k, _ in found)], 1)
        ids = np.concatenate([np.empty(0, np.int64), *(i for _, i in found)])
        order = np.argsort(ids)
        order = order[ids[order] >= self._before]
        return np.ascontiguousarray(keys[:, order]), ids[order]

    def check(self) -> None:
        for link in self._links:
            for part in link.parts:
                part.check()
            assert link.last >= self._before, "a subwindow that has expired is gone"
        for link in self._links[:-1]:
            assert link.part.rows == link.part.inside.size, "only the newest has room"
        cuts = [link.cut for link in self._links if link.cut is not None]
        assert all(a <= b for a, b in pairwise(cuts)), "cuts ascend"
        _, ids = self.dump()
        assert np.all(ids[:-1] < ids[1:]), "an id may occur once"
