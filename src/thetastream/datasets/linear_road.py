"""Generated Linear Road data: reports of vehicles on expressways, and keys for an index.

:func:`linear_road_table` has the columns and types of :func:`load_lrb`, so that either can take the
place of the other; :func:`linear_road_batches` yields the same rows piece by piece, in memory
that does not grow with time. The traffic itself is in :mod:`thetastream.datasets.traffic`.

:func:`road_key` packs expressway, direction, segment and vehicle into 32 bits, order-preserving
(Ordered Indexing, Section 4.1.2)::

    bit   31   28  27 26        20 19                       0
         ┌───────┬───┬────────────┬──────────────────────────┐
         │ xway  │dir│    seg     │           vid            │
         └───────┴───┴────────────┴──────────────────────────┘

Erratum: the paper's formula multiplies the expressway by 2²⁹, its own list of bits says 2²⁸. A
segment of one direction is one range of keys; :func:`linear_road_keys`, :func:`lrb_keys` and
:func:`random_keys` are the key sequences of the paper's experiments.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from thetastream.datasets.real import load_lrb
from thetastream.datasets.traffic import FEET, ROUND, VIDS, Reports, TrafficSimulation
from thetastream.errors import DataError, suggest

COLUMNS = (
    *("type", "time", "vid", "speed", "xway", "lane", "dir", "seg", "pos"),
    *("qid", "sinit", "send", "dow", "tod", "day", "id"),
)
"""The columns of a Linear Road table, all int64; a field that does not apply is -1."""

_BALANCE, _EXPENDITURE = 2, 3  # the types of tuples that ask something
_ASKS = (0.005, 0.006)  # of all reports one in 200 asks for the balance, one in 1,000 for a day
_DAYS = 70


def linear_road_table(
    seconds: int = 1_200,
    *,
    expressways: int = 1,
    rate: float = 1_300.0,
    growth: float = 0.9,
    accidents: float = 3.0,
    seed: int = 0,
    positions: bool = False,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Reports of vehicles on ``expressways`` for some ``seconds``, in order of time.

    - ``type`` 0 is a position report, 2 asks for an account's balance, 3 for the tolls of a day
      (``qid``, ``day``); such a row follows a report of its vehicle and repeats it.
      ``positions=True`` keeps only reports;
    - ``time`` in seconds from the start; ``vid`` numbers the vehicles of an expressway in order of
      entry, below 2²⁰; ``speed`` in miles per hour; ``lane`` 0 (entry), 1 to 3, or 4 (exit);
    - ``pos`` in feet from the western end, ``seg`` is ``pos // 5280``; ``dir`` 0 goes to higher
      positions, 1 to lower ones.

    The road is empty at first. ``rate`` vehicles enter each expressway in the first minute;
    ``growth`` times as many are added per hour. ``accidents`` are per expressway and hour: two
    vehicles stand at one place for 4 to 10 minutes, and traffic slows down in that segment and the
    four before it. ``columns`` chooses and orders the columns (16 of them are 128 bytes a row).

    The same arguments return the same table, and fewer seconds its beginning. Cost: about 0.2 µs
    per row.

    >>> table = linear_road_table(60, rate=10, columns=["time", "vid", "speed", "seg", "pos"])
    >>> table.slice(0, 1).to_pylist()
    [{'time': 8, 'vid': 0, 'speed': 10, 'seg': 4, 'pos': 21120}]
    """
    traffic = TrafficSimulation(expressways, rate, growth, accidents, seed)
    names = _chosen(columns)
    batches = [batch for _, batch in _rounds(traffic, _length(seconds), positions, names)]
    return pa.Table.from_batches(batches, _schema(names)).combine_chunks()


def linear_road_batches(
    every: int = 60,
    *,
    seconds: int | None = None,
    expressways: int = 1,
    rate: float = 1_300.0,
    growth: float = 0.9,
    accidents: float = 3.0,
    seed: int = 0,
    positions: bool = False,
    columns: Sequence[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of :func:`linear_road_table`, in batches of ``every`` seconds each.

    Without ``seconds`` there is no end. A period without a report yields an empty batch. Memory:
    the vehicles on the road and one batch, of at least 30 seconds.

    >>> [batch.num_rows for batch in linear_road_batches(60, seconds=150, rate=60)]
    [90, 213, 153]
    """
    traffic = TrafficSimulation(expressways, rate, growth, accidents, seed)
    if every < 1:
        raise DataError(f"A batch covers at least one second; got every={every}.")
    length = None if seconds is None else _length(seconds)
    return _batches(traffic, length, every, positions, _chosen(columns))


def road_key(
    xway: ArrayLike, direction: ArrayLike, seg: ArrayLike, vid: ArrayLike
) -> NDArray[np.int64]:
    """Pack the four fields into the paper's 32-bit key; a field out of range is an error.

    >>> int(road_key(1, 0, 99, 5))
    372244485
    """
    packed = np.zeros((), dtype=np.int64)
    fields = {"xway": (xway, 4), "dir": (direction, 1), "seg": (seg, 7), "vid": (vid, 20)}
    for name, (values, bits) in fields.items():
        field = np.asarray(values, dtype=np.int64)
        if field.size and (field.min() < 0 or field.max() >> bits):
            raise DataError(
                f"{name} has {bits} bits in a road key, 0 to {(1 << bits) - 1}; "
                f"got {field.min()} to {field.max()}."
            )
        packed = (packed << bits) | field
    return packed


def linear_road_keys(
    count: int,
    *,
    seed: int = 0,
    expressways: int = 4,
    rate: float = 1_300.0,
    growth: float = 0.9,
) -> NDArray[np.int64]:
    """The first ``count`` different road keys of traffic without accidents, as they first appear.

    A vehicle has one key per segment it reports from, one per three reports in the long run.
    More expressways spread the keys, time makes them denser: 16 million keys of four expressways
    take 104 minutes of traffic, and a range of 256 vehicle numbers of a segment that holds any
    key holds 22 on average. Cost: about 0.5 µs per key.

    >>> linear_road_keys(3, rate=60).tolist()
    [180355072, 40894465, 272629760]
    """
    if count < 0:
        raise DataError(f"count must not be negative; got {count}.")
    traffic = TrafficSimulation(expressways, rate, growth, 0.0, seed)
    pieces: list[NDArray[np.int64]] = []
    size = 0
    for number, reports in enumerate(traffic.rounds(), start=1):
        first = reports.first
        seg = reports.pos[first] // FEET
        keys = road_key(reports.xway[first], reports.dir[first], seg, reports.vid[first])
        pieces.append(keys)
        size += keys.size
        if size >= count and traffic.entered(number * ROUND) > VIDS:
            pieces = [_first(np.concatenate(pieces))]  # a reused number may bring old keys
            size = pieces[0].size
        if size >= count:
            break
    return np.concatenate(pieces)[:count]


def lrb_keys(folder: str | os.PathLike[str] | None = None) -> NDArray[np.int64]:
    """The different road keys of the real file in order of first appearance; see ``load_lrb``."""
    table = load_lrb(folder, positions=True)
    return _first(road_key(*(table[name].to_numpy() for name in ("xway", "dir", "seg", "vid"))))


def random_keys(count: int, *, seed: int = 0, bits: int = 32) -> NDArray[np.int64]:
    """``count`` different keys, uniform in ``[0, 2**bits)`` (Ordered Indexing, Section 4.1.1).

    Cost: O(count log count), about 0.2 µs per key.

    >>> random_keys(3).tolist()
    [3653403231, 2735729615, 2195314465]
    """
    if not 0 <= bits <= 62 or not 0 <= count <= (1 << bits) // 2:
        raise DataError(
            f"random_keys returns at most half of all keys of up to 62 bits; "
            f"got count={count}, bits={bits}."
        )
    rng = np.random.default_rng(seed)
    keys = np.empty(0, dtype=np.int64)
    while keys.size < count:
        more = rng.integers(0, 1 << bits, count - keys.size + 16)
        keys = _first(np.concatenate([keys, more]), bits)
    return keys[:count]


def _first(keys: NDArray[np.int64], bits: int = 32) -> NDArray[np.int64]:
    """Keep the first of equal keys, in order; keys are below ``2**bits``.

    Key and place are sorted as one number where both fit, four times as fast as an argsort.
    """
    below = int(keys.size).bit_length()
    if bits + below > 63:
        places = np.sort(np.unique(keys, return_index=True)[1])
        return keys[places]
    pairs = np.sort((keys << below) | np.arange(keys.size))
    kept = np.ones(keys.size, dtype=np.bool_)
    kept[pairs[1:][np.diff(pairs >> below) == 0] & ((1 << below) - 1)] = False
    return keys[kept]


def _length(seconds: int) -> int:
    if seconds < 0:
        raise DataError(f"seconds must not be negative; got {seconds}.")
    return seconds


def _chosen(columns: Sequence[str] | None) -> tuple[str, ...]:
    names = COLUMNS if columns is None else tuple(columns)
    for name in names:
        if name not in COLUMNS:
            raise DataError(
                f"Linear Road has the columns {', '.join(COLUMNS)}; asked for {name!r}."
                f"{suggest(name, COLUMNS)}"
            )
    return names


def _schema(names: Sequence[str]) -> pa.Schema:
    return pa.schema([(name, pa.int64()) for name in names])


def _rounds(
    traffic: TrafficSimulation, seconds: int | None, positions: bool, names: tuple[str, ...]
) -> Iterator[tuple[NDArray[np.int64], pa.RecordBatch]]:
    """The rows of every round, and their times."""
    rows, asked = 0, 0
    for number, reports in enumerate(traffic.rounds()):
        if seconds is not None and number * ROUND >= seconds:
            return
        chance = np.random.default_rng((traffic.seed, number, 1)).random(reports.time.size)
        if seconds is not None:
            reports = reports.until(seconds)
        asks = (chance[: reports.time.size] < _ASKS[1]) & (not positions)
        fields = _fields(reports, asks, chance, asked)
        size = fields["time"].size
        fields["id"] = np.arange(rows, rows + size)
        empty = np.full(size, -1, dtype=np.int64)
        yield (
            fields["time"],
            pa.record_batch([fields.get(name, empty) for name in names], schema=_schema(names)),
        )
        rows += size
        asked += int(asks.sum())


def _fields(
    reports: Reports, asks: NDArray[np.bool_], chance: NDArray[np.float64], asked: int
) -> dict[str, NDArray[np.int64]]:
    """Columns of one round; a report that asks is repeated as the row of its question."""
    fields = {
        name: getattr(reports, name).astype(np.int64, copy=False)
        for name in ("time", "vid", "speed", "xway", "lane", "dir", "pos")
    }
    fields["seg"] = fields["pos"] // FEET
    fields["type"] = np.zeros(fields["time"].size, dtype=np.int64)
    places = np.flatnonzero(asks)
    if places.size == 0:
        return fields
    taken = np.repeat(np.arange(asks.size), 1 + asks)
    fields = {name: column[taken] for name, column in fields.items()}
    rows = places + 1 + np.arange(places.size)
    balance = chance[places] < _ASKS[0]
    fields["type"][rows] = np.where(balance, _BALANCE, _EXPENDITURE)
    fields["qid"] = np.full(taken.size, -1, dtype=np.int64)
    fields["qid"][rows] = asked + np.arange(places.size)
    fields["day"] = np.full(taken.size, -1, dtype=np.int64)
    within = (chance[places] - _ASKS[0]) / (_ASKS[1] - _ASKS[0])  # uniform in [0, 1) again
    fields["day"][rows] = np.where(balance, -1, 1 + np.floor(within * (_DAYS - 1)))
    return fields


def _batches(
    traffic: TrafficSimulation,
    seconds: int | None,
    every: int,
    positions: bool,
    names: tuple[str, ...],
) -> Iterator[pa.RecordBatch]:
    """Cut the rounds into batches of ``every`` seconds."""
    parts: list[pa.RecordBatch] = []
    stop = every  # of the batch that is collected
    for number, (times, batch) in enumerate(_rounds(traffic, seconds, positions, names)):
        begin = 0
        while stop <= (number + 1) * ROUND and (seconds is None or stop <= seconds):
            end = int(np.searchsorted(times, stop))
            yield _joined([*parts, batch.slice(begin, end - begin)])
            parts, begin, stop = [], end, stop + every
        parts.append(batch.slice(begin))
    if seconds is not None and stop - every < seconds:
        yield _joined(parts)


def _joined(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    whole = pa.Table.from_batches(parts).combine_chunks().to_batches()
    return whole[0] if whole else parts[0]
