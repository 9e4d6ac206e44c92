"""What every window index can do.

An index stores rows as ``(keys, id)`` and answers boxes: one inclusive int64 interval per key
column. Ids are arrival numbers of one side, each inserted once, in any order within an insert and
above all ids inserted before; so expiry is an interval of ids.

    index = create("sorted-runs", capacity=1 << 20)
    index.insert(keys, ids)                       int64[n] or int64[k, n], int64[n]
    for positions, ids in index.probe(lows, highs):
        …                                         box positions[j] holds stored row ids[j]
    index.expire(before)                          rows with id < before are gone

Rules that all structures keep:

- An answer is a snapshot: rows inserted or expired while it is being read do not change it. It can
  be read repeatedly, by several readers at a time.
- An answer comes in chunks of at most ``limit`` pairs, so a huge one needs little memory.
- An empty interval (low > high) matches nothing. Each matching pair is reported exactly once.
- ``probe`` may be called by several threads at once, as long as no thread inserts or expires.

Every index maps: ``index.map(low, high, "mean", values)`` aggregates the rows of a key range
without listing them, ``index.scan(low, high)`` lists them in key order, a buffer at a time.

Structures that keep their rows in sorted arrays (``ranged``) also answer with ``ranges``: where in
those arrays the rows of a box lie, whatever their number. The rules above hold for it, too.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from thetastream._jit.arrays import Array
from thetastream.errors import DataError, RegistryError
from thetastream.index.folding import Fold
from thetastream.index.kernels.ranges import record
from thetastream.index.mapper import map_boxes, rows_in_order
from thetastream.index.registry import names, signature, structure

CHUNK = 65_536
Pair = tuple[Array, Array]
"""Positions of boxes and ids, keys and ids, or lower and upper edges."""

Step = Callable[[Array, int, Array, Array], int]


class Answer:
    """The result of a probe: an iterator of chunks, computed as they are read.

    ``again()`` reads the same snapshot from the beginning, as often as you like.
    """

    __slots__ = ("__weakref__", "_chunks", "_read")

    def __init__(self, read: Callable[[], Iterator[Pair]]) -> None:
        self._read = read
        self._chunks: Iterator[Pair] | None = None

    def __iter__(self) -> Answer:
        return self

    def __next__(self) -> Pair:
        if self._chunks is None:
            self._chunks = self._read()
        return next(self._chunks)

    def again(self) -> Iterator[Pair]:
        """The chunks from the first on."""
        return self._read()


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Ranges:
    """An answer as records ⟨start, end⟩ into sorted arrays.

    Record ``j``: box ``boxes[j]`` holds the rows ``ids[runs[j]][starts[j]:stops[j]]``.

    Its size depends on the boxes and the sorted arrays (*runs*), not on the matches. ``ids`` holds,
    per run, the ids of its live rows in key order; they are valid while you hold the ``Ranges``.

        box 0 asks [15, 30]        run 0   keys  10  20  20  30  90      run 1   keys  25
                                           ids    7   2   5   0   4              ids    8
        records  (box 0, run 0, start 1, stop 4), (box 0, run 1, start 0, stop 1)
    """

    boxes: Array  # ascending
    runs: Array  # ascending within a box
    starts: Array
    stops: Array  # above ``starts`` in every record
    ids: tuple[Array, ...]
    keeps: object = None  # keeps alive what ``ids`` depend on

    @classmethod
    def of(cls, starts: Array, stops: Array, ids: Sequence[Array], keeps: object = None) -> Ranges:
        """Records of the ranges that hold a row; ``starts[run, box]`` and ``stops[run, box]``."""
        columns = np.empty((4, starts.size), np.int64)
        count = record(starts, stops, *columns)
        boxes, runs, firsts, lasts = (column[:count].copy() for column in columns)
        return cls(boxes, runs, firsts, lasts, tuple(ids), keeps)

    def __len__(self) -> int:
        return self.boxes.size

    @property
    def matches(self) -> int:
        """How many pairs the records represent. O(records)."""
        return int((self.stops - self.starts).sum())

    def counts(self, boxes: int) -> Array:
        """The number of matches of each of ``boxes`` boxes. O(records + boxes)."""
        totals = np.concatenate([[0], np.cumsum(self.stops - self.starts)])
        return np.diff(totals[np.searchsorted(self.boxes, np.arange(boxes + 1))])

    def pairs(self, limit: int = CHUNK) -> Iterator[Pair]:
        """The pairs behind the records, as ``(positions, ids)``, at most ``limit`` at a time.

        Computed as they are read, in the order of their records. O(1) per pair.
        """
        ends = np.cumsum(self.stops - self.starts)
        total = int(ends[-1]) if ends.size else 0
        for start in range(0, total, limit):
            stop = min(start + limit, total)
            first, last = np.searchsorted(ends, [start, stop - 1], side="right")
            part = slice(int(first), int(last) + 1)
            # The place of each pair in its run: the pair's number, shifted by that of its record.
            shift = self.stops[part] - ends[part]
            lengths = np.diff(np.minimum(ends[part], stop), prepend=start)
            places = np.arange(start, stop) + np.repeat(shift, lengths)
            runs = np.repeat(self.runs[part], lengths)
            yield np.repeat(self.boxes[part], lengths), self._at(runs, places)

    def _at(self, runs: Array, places: Array) -> Array:
        """Ids of rows at places of runs."""
        kinds = np.unique(runs)
        if kinds.size == 1:
            return self.ids[int(kinds[0])][places]
        ids = np.empty(places.size, np.int64)
        for run in kinds:
            mine = runs == run
            ids[mine] = self.ids[int(run)][places[mine]]
        return ids


class Index(ABC):
    """A window index over ``columns`` key columns. The module's docstring states the rules."""

    name: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    ranged: ClassVar[bool] = False  # whether ``ranges`` works, with one key column
    timed: ClassVar[bool] = False  # whether ``insert`` also takes ``times``, for ``expire_older``
    per_tuple: ClassVar[bool] = False  # whether it is made for inserting rows one by one
    in_subwindows: ClassVar[bool] = False  # whether it is a chain of subwindows, by arrival
    permuted: ClassVar[bool] = False  # whether it stores the orders of several key columns
    tunable: ClassVar[tuple[str, ...]] = ()  # parameters that ``tune`` can change
    taker: ClassVar[str] = ""  # the method that takes the ``**settings`` of the constructor
    __signature__: ClassVar[inspect.Signature]

    def __init_subclass__(cls) -> None:
        """Show the parameters of the ``taker`` as parameters of the constructor."""
        super().__init_subclass__()
        shown = [*inspect.signature(cls.__init__).parameters.values()][1:]
        if cls.taker and shown[-1].kind is inspect.Parameter.VAR_KEYWORD:
            taken = inspect.signature(getattr(cls, cls.taker)).parameters.values()
            shown[-1:] = [one for one in taken if one.name not in ("self", "window")]
        cls.__signature__ = inspect.Signature(shown)

    def __init__(self, capacity: int, columns: int) -> None:
        for word, value in (("capacity", capacity), ("columns", columns)):
            is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if not is_whole or value < 1:
                raise RegistryError(f"{word} must be a whole number of at least 1; got {value!r}")
        self.capacity = capacity
        self.columns = columns

    @abstractmethod
    def insert(self, keys: Array, ids: Array) -> None:
        """Store rows."""

    @abstractmethod
    def probe(self, lows: Array, highs: Array, *, limit: int = CHUNK) -> Answer:
        """Return ``(positions, ids)`` of the stored rows inside each box, ``limit`` at a time."""

    def ranges(self, lows: Array, highs: Array) -> Ranges:
        """Return where the rows of each box lie, at a cost that does not grow with the matches.

        At most one record per box and run. Only for ``ranged`` structures with one key column.
        """
        others = [name for name in names() if structure(name).ranged]
        one = f" over {self.columns} key columns" if self.columns > 1 else ""
        raise RegistryError(
            f"index {self.name!r}{one} keeps no sorted arrays, so it cannot answer with ranges; "
            f"use probe, or one of {', '.join(others)} with one key column"
        )

    def counts(self, lows: Array, highs: Array) -> Array:
        """How many rows each box holds. Only for ``ranged`` structures with one key column."""
        return self.ranges(lows, highs).counts(np.shape(lows)[-1])

    def map(
        self, low: Any, high: Any, mapping: Any = "count", values: Any = None, state: Any = None
    ) -> Any:
        """Apply a mapping to the rows with keys from ``low`` to ``high`` without listing them.

        ``mapping`` is "count", "sum", "min", "max", "mean", or your own function ``f(key, value,
        state)``, which is compiled. ``values`` holds a number per row: ``Values(array, first)``, or
        an array indexed by id; without it the value of a row is its id. ``state`` is the initial
        state of your function in each range, and its result.

        One range (two numbers) returns one result, None if it holds no row; arrays of ranges
        return an array, masked there.
        """
        return map_boxes(self, low, high, mapping, values, state)

    def fold_boxes(self, lows: Array, highs: Array, fold: Fold) -> None:
        """Add the rows of each box to its accumulators.

        Uses the pairs of a probe, unless the structure has its own mapper.
        """
        for positions, ids in self.probe(lows, highs):
            fold.add(positions, ids)

    def scan(self, low: Any, high: Any, *, buffer: int = CHUNK) -> Iterator[Pair]:
        """Rows of one key range in key order, as ``(keys, ids)``, at most ``buffer`` at a time.

        A structure without a key order sorts a dump of its rows first.
        """
        return rows_in_order(self, low, high, buffer)

    @abstractmethod
    def expire(self, before: int) -> None:
        """Remove all rows with an id below ``before``."""

    def expire_older(self, time: int) -> None:
        """Allow removing rows with an event time below ``time``, which can no longer match.

        Does nothing unless event times are known (``timed``).
        """
        return

    def tune(self, rows: int, **parameters: Any) -> None:
        """Change ``tunable`` parameters to suit a window of ``rows`` rows.

        Answers do not change. The change may take effect when the structure is next rebuilt.
        """
        raise NotImplementedError(f"{self.name} has no parameters that can be changed")

    @abstractmethod
    def __len__(self) -> int:
        """How many rows are stored and not expired."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes held, including expired rows that are still in the arrays."""

    @abstractmethod
    def check(self) -> None:
        """Assert every invariant. For tests: may cost O(n log n)."""

    @property
    def parameters(self) -> dict[str, Any]:
        """The settings this index was created with: those that it keeps as attributes."""
        words = [word for word in signature(type(self)) if hasattr(self, word)]
        own = {word: getattr(self, word) for word in words}
        return {"capacity": self.capacity, "columns": self.columns, **own}

    @property
    def statistics(self) -> dict[str, float]:
        """Counters of work done since creation, such as merges."""
        return {}

    @property
    def details(self) -> dict[str, Any]:
        """Further facts for ``explain()``, such as the parts of this index."""
        return {}

    @abstractmethod
    def dump(self) -> Pair:
        """All stored rows as ``(keys[columns, n], ids[n])`` in ascending order of id."""

    def _check_single_key(self) -> None:
        """Raise for a look-up by one key in an index over several key columns."""
        if self.columns > 1:
            raise RegistryError(
                f"find looks up one key; index {self.name!r} was created for {self.columns} "
                "key columns: use probe"
            )

    def _matrix(self, keys: Array) -> Array:
        """Keys as a matrix of one row per column."""
        if (
            keys.ndim == 2
            and keys.shape[0] == self.columns
            and keys.dtype == np.int64
            and keys.flags.carray
        ):
            return keys
        matrix = np.require(np.atleast_2d(keys), np.int64, ("C_CONTIGUOUS", "WRITEABLE"))
        if matrix.ndim != 2 or matrix.shape[0] != self.columns:
            raise DataError(
                f"index {self.name!r} was created for {self.columns} key column(s); got an array "
                f"of shape {np.shape(keys)}"
            )
        return matrix


def chunks(boxes: int, limit: int, cursor: Array, step: Step) -> Iterator[Pair]:
    """Call ``step(cursor, filled, positions, ids)`` until ``cursor[0]`` has passed all boxes.

    Chunks start small, for a few matches per box, and double as long as they are full.
    """
    room = min(limit, max(256, 4 * boxes))
    while cursor[0] < boxes:
        positions, ids = np.empty(room, np.int64), np.empty(room, np.int64)
        filled = step(cursor, 0, positions, ids)
        if filled == room:
            room = min(limit, 2 * room)
        if filled:
            yield positions[:filled], ids[:filled]


def live_rows(parts: Sequence[Pair], columns: int, before: int) -> Pair:
    """The rows of several ``(keys[columns, n], ids[n])`` by ascending id, without expired ones."""
    keys = np.concatenate([np.empty((columns, 0), np.int64), *(keys for keys, _ in parts)], axis=1)
    ids = np.concatenate([np.empty(0, np.int64), *(ids for _, ids in parts)])
    order = np.argsort(ids)
    order = order[ids[order] >= before]
    return np.ascontiguousarray(keys[:, order]), ids[order]


def folds_itself(index: type[Index]) -> bool:
    """Whether a structure folds boxes in its own arrays instead of over the pairs of a probe."""
    return index.fold_boxes is not Index.fold_boxes
