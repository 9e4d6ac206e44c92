"""PTWI, the partitioned temporal window index: a circular array of partial indexes, cut by time.

    time ──────────────────────────────────────────────►      the array, M = 5
        ┌ · · · ┬───────┬───────┬───────┬───────┬─────┐
        ·  @2   │  @3   │  @4   │  @5   │  @6   │ @7 ◄── rows
        └ · · · ┴───────┴───────┴───────┴───────┴─────┘      │ @6 │ @7 │ @3 │ @4 │ @5 │
         dropped         ▲
                         └─ a late row goes where its time lies

Ordered Indexing, Section 3.3.2. The window is cut into subwindows of ``stride`` units of time, each
with a partial index of its own: any registered structure (``inner``). The window moves by dropping
whole partial indexes, at a constant cost, instead of searching and deleting each expired row.
Dropped ones are freed in the background (``disposal.py``).

Time is the event time of rows if given (``insert(keys, ids, times)``), else their id.

Rules:

- A row goes into the subwindow of its time (``circular.py``), which is reopened if it was dropped.
  Rows leave by ``expire`` and ``expire_older`` only: no row is lost because it is late.
- A subwindow is dropped when all its ids have expired or all its times have passed. Expired rows of
  other subwindows are skipped. Structures that would delete them one by one do so only if the
  subwindow still receives rows.
- If ``stride`` is given, subwindows begin at its multiples, as the windows that slide by it do, and
  the array grows with the number of live subwindows. Otherwise the stride is learnt. Over ids it is
  ``capacity / subwindows``. Over times, the first subwindow lasts until it holds that many rows;
  once ``expire_older`` shows how much time the window spans, the stride is that divided by
  ``subwindows``. It doubles when more than ``2 M`` subwindows are live. Subwindows of an earlier
  stride stay unchanged until they are dropped.

Invariants (``check``): those of each partial index; subwindows are where their numbers say; rows
lie within the ids and times noted for their subwindow; an id occurs once; no subwindow has expired
entirely.

Cost: insert costs that of the inner structure, and one division per row; dropping O(1). A probe
costs that of the inner structure in each subwindow it reads: all of them, those of a period
(``between``), one for a point in time (``find(keys, at=…)``). Bytes: those of the inner structures.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from thetastream._jit.arrays import LEAST, MOST, Array
from thetastream.errors import DataError
from thetastream.index.base import Index
from thetastream.index.registry import check_parameters, checked, create, refused
from thetastream.index.slotted.circular import Calendar, CircularArray, Slot, ends
from thetastream.index.slotted.disposal import begin, discard
from thetastream.index.slotted.slotted import Between, Slotted

_NO_TIME = LEAST  # of rows without an event time


class Ptwi(Slotted):
    """A partial index ``inner`` per subwindow, created with ``options``.

    >>> index = Ptwi(capacity=300, inner="sorted-runs", subwindows=5, stride=60)
    >>> index.insert(np.array([7, 8]), np.array([0, 1]), np.array([30, 95]))
    >>> index.details["array"]
    ['@0', '@60', 'nil', 'nil', 'nil']
    >>> index.expire_older(90)
    >>> index.details["array"]
    ['nil', '@60', 'nil', 'nil', 'nil']
    """

    name: ClassVar[str] = "ptwi"
    summary: ClassVar[str] = "a circular array of partial indexes by time, dropped whole"
    timed: ClassVar[bool] = True

    def __init__(
        self,
        capacity: int = 1 << 20,
        columns: int = 1,
        inner: str = "radix-trie",
        subwindows: int = 5,
        stride: int = 0,
        background: bool = True,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(capacity, columns)
        checked(self.name, subwindows=(subwindows, 1), stride=(stride, 0))
        if inner.partition("/")[0] == self.name:
            raise refused(
                self.name,
                f"inner must be a structure that is not cut by time itself; got {inner!r}",
                " Use more subwindows, or a longer stride.",
            )
        check_parameters(inner, options or {})
        self.inner, self.subwindows, self.stride = inner, subwindows, stride
        self.background = background
        self.options = dict(options) if options else None
        self._share = -(-capacity // subwindows)  # rows of a subwindow
        self._spare: Index | None = self._create()
        self._deletes = bool(getattr(self._spare, "deletes", False))
        self._array = CircularArray(subwindows)
        self._former: list[Slot] = []  # of an earlier stride, or before there is one
        self._calendar: Calendar | None = None
        self._with_times: bool | None = None
        self._before = 0
        self._now = _NO_TIME  # a time among the rows of the last insert
        self._least = MOST  # the least time in the first subwindow
        self._newest: Slot | None = None
        self._since_change = 0  # rows inserted since the stride changed
        self._touched = self._dropped = self._late = 0
        self._work: dict[str, float] = {}  # statistics of dropped partial indexes
        if background:
            begin()

    def _create(self) -> Index:
        settings = self.options or {}
        return create(self.inner, capacity=self._share, columns=self.columns, **settings)

    # --- Changing -------------------------------------------------------------------------------

    def insert(self, keys: Array, ids: Array, times: Array | None = None) -> None:
        """The cost of the inner structure; ``times`` are int64, one per row."""
        matrix = self._matrix(keys)
        if not ids.size:
            return
        ids = np.ascontiguousarray(ids, np.int64)
        times = self._times(ids, times)
        self._since_change += ids.size
        if self._calendar is None and (self.stride or not self._with_times):
            stride = self.stride or self._share
            self._calendar = Calendar(_on_grid(_origin(ids, times), stride), stride)
        if self._calendar is None:
            matrix, ids, times = self._fill_first(matrix, ids, times)
        if ids.size:
            self._spread(matrix, ids, times)

    def _times(self, ids: Array, times: Array | None) -> Array:
        """The checked times of rows; their ids if there are none."""
        if self._with_times is None:
            self._with_times = times is not None
        if self._with_times != (times is not None):
            came, before = ("with", "without") if times is not None else ("without", "with")
            raise DataError(
                f"index {self.name!r} cuts rows by one time; got rows {came} event times after "
                f"rows {before} them: pass times always, or never"
            )
        if times is None:
            return ids
        times = np.ascontiguousarray(times, np.int64)
        if times.shape != ids.shape:
            raise DataError(
                f"times must have one entry per row; got shape {times.shape} for {ids.size} rows"
            )
        middle = times.size // 2  # not the latest, which may lie in the future
        self._now = int(np.partition(times, middle)[middle] if middle else times[0])
        return times

    def _fill_first(self, matrix: Array, ids: Array, times: Array) -> tuple[Array, Array, Array]:
        """Fill the first subwindow, whose length becomes the stride; returns the other rows."""
        if not self._former:
            self._former = [Slot(0, _origin(ids, times), self._next())]
        first = self._former[0]
        room = self._share - first.rows
        now = np.ones(ids.size, np.bool_)
        if ids.size > room:
            now = ids <= np.partition(ids, room - 1)[room - 1]
        first.insert(np.ascontiguousarray(matrix[:, now]), ids[now], times[now])
        self._newest = first
        known = times[now & (times != _NO_TIME)]
        if known.size:
            self._least = min(self._least, int(known.min()))
        if first.rows == self._share:
            self._learn(first.greatest - self._least + 1)
        return np.ascontiguousarray(matrix[:, ~now]), ids[~now], times[~now]

    def _spread(self, matrix: Array, ids: Array, times: Array) -> None:
        """Insert rows into their subwindows."""
        calendar = self._calendar
        assert calendar is not None
        first, last = map(calendar.number, ends(times))
        numbers = None if first == last else calendar.numbers(times)
        touched = [first] if numbers is None else np.unique(numbers).tolist()
        if not self.stride and not calendar.widest and self._crowded(touched):
            self._learn(2 * calendar.stride)
            self._spread(matrix, ids, times)
        elif numbers is None:  # as nearly always
            self._put(first, matrix, ids, times)
        else:
            order = np.argsort(numbers, kind="stable")
            edges = np.searchsorted(numbers[order], touched).tolist()
            for number, start, stop in zip(touched, edges, [*edges[1:], ids.size], strict=True):
                at = order[start:stop]
                self._put(number, np.ascontiguousarray(matrix[:, at]), ids[at], times[at])

    def _crowded(self, numbers: list[int]) -> bool:
        """Whether opening these subwindows would make too many."""
        new = sum(self._array.find(number) is None for number in numbers)
        return new > 0 and len(self._array) + new > 2 * self.subwindows

    def _put(self, number: int, matrix: Array, ids: Array, times: Array) -> None:
        assert self._calendar is not None
        slot = self._array.find(number)
        if slot is None:
            slot = Slot(number, self._calendar.begin(number), self._next())
            self._array.put(slot)
        slot.insert(matrix, ids, times)
        if self._newest is None or slot.greatest >= self._newest.greatest:
            self._newest = slot
        elif slot is not self._newest:
            self._late += ids.size

    def _next(self) -> Index:
        """A partial index for a new subwindow."""
        index, self._spare = self._spare, None
        return self._create() if index is None else index

    def _learn(self, stride: int) -> None:
        """Change the length of new subwindows; live ones stay unchanged."""
        live = self._slots()
        self._former, self._array = live, CircularArray(self.subwindows)
        origin = live[0].begin if self._calendar is None and live else 0
        if self._calendar is not None:
            origin = self._calendar.origin
        self._calendar = Calendar(origin, max(1, stride))
        self._since_change = 0

    def expire(self, before: int) -> None:
        """O(subwindows): drops those whose ids have all expired."""
        if before <= self._before:
            return
        self._before = before
        for slot in self._slots():
            if slot.last < before:
                self._drop(slot)
            elif slot.first < before and self._passes_on(slot):
                slot.index.expire(before)
                slot.expired = before

    def _passes_on(self, slot: Slot) -> bool:
        """Whether the partial index of a subwindow expires its rows itself."""
        half = slot.first + (slot.last - slot.first) // 2
        return not self._deletes or (slot is self._newest and self._before > half)

    def expire_older(self, time: int) -> None:
        """O(subwindows): drops those whose times have all passed."""
        if not self._with_times:
            return
        for slot in self._slots():
            if slot.greatest < time:
                self._drop(slot)
        if not self.stride and self._now >= time:
            self._fit(-(-(self._now - time + 1) // self.subwindows))

    def _fit(self, stride: int) -> None:
        """Adopt a stride that suits the window's span, if the present one clearly does not."""
        known = self._calendar.stride if self._calendar else 0
        rows = sum(slot.rows for slot in self._slots())
        if not known // 2 <= stride <= 2 * known and self._since_change * self.subwindows >= rows:
            self._learn(stride)

    def _drop(self, slot: Slot) -> None:
        """O(1): detaches the partial index, which is freed in the background."""
        if slot in self._former:
            self._former.remove(slot)
        else:
            self._array.remove(slot)
        if slot is self._newest:
            self._newest = max(self._slots(), key=lambda one: one.greatest, default=None)
        self._dropped += 1
        _add(self._work, slot.index.statistics)
        unwanted = [slot.index]
        del slot.index  # so that only readers still refer to it
        if self.background:
            discard(unwanted)

    # --- Asking ---------------------------------------------------------------------------------

    def slots_between(self, since: int, until: int) -> tuple[Slot, ...]:
        """The subwindows that hold rows with times from ``since`` to ``until``, both included."""
        return tuple(s for s in self._slots() if s.least <= until and since <= s.greatest)

    def between(self, since: int, until: int) -> Between:
        """A read-only index over ``slots_between``, valid until this index changes.

        Rows of the first and the last subwindow may lie outside the period; the caller filters
        them by their times.
        """
        return Between(self, self.slots_between(since, until))

    def find(self, keys: Array, at: int | None = None) -> Array:
        """The id of the newest row of each key, or -1; with ``at``, in the subwindow of that time.

        That is one subwindow, unless the stride has changed since (Section 3.3.2, query Q1).
        """
        if at is None:
            return super().find(keys)
        low = high = at
        if self._calendar is not None:
            low = self._calendar.begin(self._calendar.number(at))
            high = low + self._calendar.stride - 1
        return self.between(low, high).find(keys)

    # --- Facts ----------------------------------------------------------------------------------

    def _slots(self) -> list[Slot]:
        return sorted([*self._former, *self._array], key=lambda slot: slot.begin)

    def touch(self, slots: int) -> None:
        self._touched += slots

    @property
    def nbytes(self) -> int:
        return super().nbytes + (0 if self._spare is None else self._spare.nbytes)

    @property
    def statistics(self) -> dict[str, float]:
        """The sums over the inner structures, and counters of subwindows."""
        total, slots = dict(self._work), self._slots()
        for slot in slots:
            _add(total, slot.index.statistics)
        return {
            **total,
            "runs": len(slots),
            "slots_touched": self._touched,
            "slots_dropped": self._dropped,
            "late_rows": self._late,
        }

    @property
    def details(self) -> dict[str, Any]:
        calendar = self._calendar
        return {
            "inner": self.inner,
            "stride": None if calendar is None else calendar.stride,
            "T0": None if calendar is None else calendar.origin,
            "array": self._array.drawn(),
            "earlier strides": [str(slot) for slot in self._former],
            "subwindows": [
                {"begin": s.begin, "rows": s.rows, "times": [s.least, s.greatest]}
                for s in self._slots()
            ],
        }

    def check(self) -> None:
        self._array.check()
        assert len({id(slot) for slot in self._slots()}) == len(self._former) + len(self._array)
        for slot in self._slots():
            slot.index.check()
            ids = slot.index.dump()[1]
            assert slot.rows >= ids.size and slot.first <= slot.last >= self._before
            assert not ids.size or (slot.first <= ids[0] and ids[-1] == slot.last)
            assert slot.hides(self._before) or not ids.size or ids[0] >= self._before
        for slot in self._array:
            assert self._calendar is not None
            numbers = map(self._calendar.number, (slot.least, slot.greatest))
            assert {*numbers} == {slot.number}, "rows must lie in the subwindow of their time"
        _, ids = self.dump()
        assert np.all(ids[:-1] < ids[1:]), "an id may occur once"
        assert ids.size == len(self)


def _origin(ids: Array, times: Array) -> int:
    """T0: the time of the row that arrived first, or 0 if it has none."""
    first = int(times[int(np.argmin(ids))])
    return 0 if first == _NO_TIME else first


def _on_grid(time: int, stride: int) -> int:
    """The last multiple of the stride up to a time (mod(t, S) = 0), or the time itself."""
    begin = time - time % stride
    return begin if begin >= LEAST else time


def _add(total: dict[str, float], work: Mapping[str, float]) -> None:
    for name, value in work.items():
        total[name] = total.get(name, 0) + value
