"""The chain of subwindows: a window cut by arrival, dropped piece by piece.

    arrival ─────────────────────────────────────────────────►
            ┌ · · · · ┬─────────┬─────────┬─────────┬────┐
            · dropped │ oldest  │ closed  │ closed  │ newest ◄── inserts
            └ · · · · ┴─────────┴─────────┴─────────┴────┘
                        │                    ▲
                        rows that have       └─ late: rows whose event time lies in a closed
                        expired are skipped     subwindow, in a small sorted buffer beside it

PanJoin, Sections III-A and III-G. A full subwindow has ``ceil(capacity / subwindows)`` rows; when
more rows stay than ``capacity`` suggests (time windows), new ones are made larger, so that there
are never many more than ``subwindows``. The registered structures differ in the ``Subwindow`` that
holds the rows.

Count-based windows expire by id. So do time-based ones, as long as rows come in the order of their
event time; a late row would keep the subwindow of its arrival alive. So with ``times``, every
closed subwindow ends at a point in time (*cut*), a row goes to the subwindow of its event time, and
``expire_older`` drops subwindows by their cut.

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
from thetastream.index.base import CHUNK, Answer, Index, Pair, live_rows
from thetastream.index.registry import checked, refused
from thetastream.index.runs.kernels import ranges
from thetastream.index.subwindows import kernels, procedure
from thetastream.index.subwindows.bi_sorted import BiSorted
from thetastream.index.subwindows.part import Part, PartView
from thetastream.index.subwindows.partitioned import ROWS_PER_PART
from thetastream.index.subwindows.procedure import SubwindowProbe, Worker
from thetastream.index.subwindows.subwindow import SUBWINDOWS, Subwindow
from thetastream.index.threads import PairsAhead, pool

_LATE_ROWS = 1024  # initial size of a subwindow's late buffer
_LATE_STEP = 32
_windows = count()


@dataclass
class Observed:
    """The traffic since the newest subwindow was made."""

    inserts: int = 0
    rows: int = 0
    probes: int = 0
    boxes: int = 0
    probed: float = 0.0  # boxes, weighted by the share of a full subwindow that they probed
    matches: float = 0.0  # pairs of these
    batch: float = 0.0  # rows per insert
    selectivity: float = 0.0  # matches per box in a full subwindow
    boxes_per_row: float = 1.0  # until something is known
    boxes_per_probe: float = 0.0  # 0: no probe yet
    settled: bool = False

    def ask(self, boxes: int) -> None:
        """Record a probe."""
        self.probes += 1
        self.boxes += boxes

    def add(self, boxes: int, share: float, pairs: int) -> None:
        """Record an answer."""
        self.probed += boxes * share
        self.matches += pairs

    def settle(self) -> None:
        """Update the averages and restart the counters; averages without news stay."""
        if self.inserts:
            self.batch = self.rows / self.inserts
        if self.inserts and self.settled:  # before the first subwindow there is nothing to probe
            self.boxes_per_row = self.boxes / self.rows
        if self.probes and self.settled:
            self.boxes_per_probe = self.boxes / self.probes
        if self.probed:
            self.selectivity = self.matches / self.probed
        self.settled = True
        self.inserts = self.rows = self.probes = self.boxes = 0
        self.probed = self.matches = 0.0


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
    """Boxes, and the views to probe; the answer's reader holds it."""

    views: list[tuple[Worker, PartView, float]]
    lows: Array
    highs: Array
    limit: int
    running: list[Future[PairsAhead]] = field(default_factory=list)


class Chain(Index):
    """A window index as a chain of subwindows. Subclasses define what is inside one."""

    timed: ClassVar[bool] = True
    in_subwindows: ClassVar[bool] = True

    taker: ClassVar[str] = "configure"

    def __init__(
        self,
        capacity: int = 1 << 20,
        columns: int = 1,
        subwindows: int = SUBWINDOWS,
        partitions: int = 0,
        threads: int = 1,
        workers: int = 1,
        **settings: Any,
    ) -> None:
        super().__init__(capacity, columns)
        checked(self.name, subwindows=(subwindows, 1), threads=(threads, 1), workers=(workers, 1))
        if partitions < 0:
            raise refused(
                self.name,
                f"partitions must be at least 1, or 0 for one per {ROWS_PER_PART} rows; "
                f"got {partitions}",
            )
        prepare(kernels, ranges)
        self.subwindows = subwindows
        self.partitions = partitions
        self.threads = threads
        self.workers = workers
        self.observed = Observed()
        self._window = next(_windows)
        self._numbers = count()
        self._links: list[_Link] = []
        self._dropped: Counter[str] = Counter()
        self._pending: list[Future[None]] = []
        self._questions: WeakSet[_Question] = WeakSet()
        self._before = 0
        self._next = 0
        self._newest_time: int | None = None
        self._switches = 0
        configure: Callable[..., None] = self.configure
        configure(**settings)

    # --- What is inside -------------------------------------------------------------------------

    def configure(self) -> None:
        """Take the settings of a subclass, which adds them as parameters."""

    def make(self, size: int, previous: Subwindow | None, keys: Array) -> Subwindow:
        """A new subwindow; ``previous`` is the one just closed, ``keys`` the first to come."""
        raise NotImplementedError

    def parts(self, size: int) -> int:
        """How many partitions a subwindow of ``size`` rows has."""
        return self.partitions or max(1, size // ROWS_PER_PART)

    def closed(self, inside: Subwindow) -> None:
        """Called when a subwindow is full: a chance to learn from it."""

    def outgrown(self, inside: Subwindow) -> bool:
        """Whether to stop filling the newest subwindow although it has room.

        Only for structures that need no ``close``.
        """
        return False

    # --- Changing -------------------------------------------------------------------------------

    def insert(self, keys: Array, ids: Array, times: Array | None = None) -> None:
        """The structure's cost per row; plus a sort, unless keys ascend."""
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

    def _fill(self, matrix: Array, ids: Array) -> Pair:
        """Fill the newest subwindow, by arrival; returns the rows that do not fit."""
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
            rows = sum(link.part.rows for link in self._links)
            size = max(-(-self.capacity // self.subwindows), rows // self.subwindows)
            inside = self.make(size, previous, keys)
            self._switches += previous is not None and previous.kind != inside.kind
            number = next(self._numbers)
            crew = procedure.workers(self.workers)
            part = Part(inside, self.columns)
            last = _Link((self._window, number), crew[number % len(crew)], part)
            self._links.append(last)
            self._pending.append(last.worker.send(procedure.Create(last.key, part)))
        return last

    def _send(self, link: _Link, matrix: Array, ids: Array, *, close: bool) -> None:
        self._pending.append(link.worker.send(procedure.Insert(link.key, matrix, ids, close)))

    def _feedback(self) -> None:
        """Wait for the commands sent so far."""
        pending, self._pending = self._pending, []
        for feedback in pending:
            feedback.result()

    def _quiet(self) -> None:
        """Before a change: wait for workers that still compute pairs from the old state."""
        for question in list(self._questions):
            for job in question.running:
                job.exception()

    def _without_late(self, matrix: Array, ids: Array, times: Array) -> Pair:
        """Put rows whose event time lies in a closed subwindow there; returns the others."""
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
        """O(subwindows): drops those that have expired entirely."""
        if before > self._before:
            self._before = before
            self._drop(lambda link: link.last < before)

    def expire_older(self, time: int) -> None:
        """O(subwindows): drops closed ones whose event times have all passed."""
        self._drop(lambda link: link.cut is not None and link.cut < time)

    def _drop(self, gone: Callable[[_Link], bool]) -> None:
        for link in [link for link in self._links if gone(link)]:
            self._links.remove(link)
            self._pending.append(link.worker.send(procedure.Expire(link.key)))
            for part in link.parts:
                self._dropped.update(part.inside.work)
        self._feedback()

    # --- Asking ---------------------------------------------------------------------------------

    def probe(self, lows: Array, highs: Array, *, limit: int = CHUNK) -> Answer:
        """The structure's cost per box and subwindow, as the answer is read."""
        question = _Question(self._views(), self._matrix(lows), self._matrix(highs), limit)
        self._questions.add(question)
        return Answer(partial(self._read, question))

    def _views(self) -> list[tuple[Worker, PartView, float]]:
        """All parts as they are now, with the share of a full subwindow that each has."""
        views = []
        for link in self._links:
            for part in link.parts:
                share = part.rows / link.part.inside.size
                for view in part.views(self._before, self._next):
                    views.append((link.worker, view, share))
                    share = 0.0  # counted with the first of its views
        return views

    def _read(self, question: _Question) -> Iterator[Pair]:
        boxes = question.lows.shape[1]
        self.observed.ask(boxes)
        for share, chunks in self._chunks(question):
            pairs = 0
            for chunk in chunks:
                pairs += chunk[0].size
                yield chunk
            self.observed.add(boxes, share, pairs)

    def _chunks(self, question: _Question) -> Iterator[tuple[float, Iterator[Pair]]]:
        """The pairs of each view, in order; several threads compute them ahead."""
        boxes = question.lows.shape[1]
        several = self.workers > 1 or self.threads > 1
        edges = np.linspace(0, boxes, (self.threads if boxes > 1 else 1) + 1).astype(np.int64)
        sent: list[tuple[float, list[Future[PairsAhead]]]] = []
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
                yield share, probes[0].pairs()
        for share, jobs in sent:
            yield share, (pair for job in jobs for pair in job.result())
        question.running.clear()

    def _ask(self, worker: Worker, probe: SubwindowProbe) -> Future[PairsAhead]:
        threads = pool(self.threads)
        if self.workers > 1 or threads is None:
            return worker.ask(probe)
        return threads.submit(probe.run)

    # --- Facts ----------------------------------------------------------------------------------

    def __len__(self) -> int:
        """O(rows) for subwindows in which some have expired."""
        return sum(part.living(self._before) for link in self._links for part in link.parts)

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for link in self._links for part in link.parts)

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

    def dump(self) -> Pair:
        parts = [part.dump() for link in self._links for part in link.parts]
        return live_rows(parts, self.columns, self._before)

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
