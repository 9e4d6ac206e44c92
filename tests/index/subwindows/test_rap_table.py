"""RaP-Table: Algorithm 1 makes partitions even within a few subwindows, and says when it cannot."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from thetastream.errors import RegistryError
from thetastream.index import create
from thetastream.index.subwindows.partitioned import Partitioned
from thetastream.index.subwindows.rap_table import RapTable, splitter_error

from ...keys import Array

RANGE = 2**32
ROWS, PARTS = 1 << 18, 256


def _normal(random: np.random.Generator) -> NDArray[np.float64]:
    return random.normal(0.5, 0.01, ROWS)


def _multimodal(random: np.random.Generator) -> NDArray[np.float64]:
    return random.choice([0.15, 0.4, 0.9], ROWS) + random.normal(0, 0.003, ROWS)


def _corner(random: np.random.Generator) -> NDArray[np.float64]:
    return random.random(ROWS) * 0.001


def _rank_size(random: np.random.Generator) -> NDArray[np.float64]:
    """Like view counts: 99 % of the values in 0.01 % of the range."""
    return random.pareto(2.0, ROWS) * (1e-4 / 9)


def fed(table: RapTable, subwindows: list[Array]) -> RapTable:
    """One subwindow after the other."""
    first = 0
    for keys in subwindows:
        table.expire(first)
        table.insert(keys, np.arange(first, first + keys.size))
        first += keys.size
    return table


def table_of(rows: int, parts: int, **parameters: int) -> RapTable:
    return RapTable(
        capacity=rows, subwindows=1, partitions=parts, domain=(0, RANGE - 1), **parameters
    )


@pytest.mark.parametrize("spread", [_normal, _multimodal, _corner, _rank_size])
def test_three_adjustments_make_partitions_even(
    spread: Callable[[np.random.Generator], NDArray[np.float64]],
) -> None:
    """From splitters even over the range of 32 bits."""
    random = np.random.default_rng(7)
    keys = [np.clip(spread(random) * RANGE, 0, RANGE - 1).astype(np.int64) for _ in range(6)]
    table = fed(table_of(ROWS, PARTS), keys)
    assert len(table.errors) == 6
    assert table.errors[0] > 1, "a hard start"
    assert max(table.errors[3:]) < 0.1
    assert table.statistics["splitter_error"] == table.errors[-1]
    assert table.statistics["outside_share"] < 0.01
    assert "note" not in table.details
    table.check()


@pytest.mark.parametrize(("parts", "bound"), [(16, 8), (256, 4), (1024, 4), (65536, 2)])
def test_the_worst_case_of_figure_4(parts: int, bound: int) -> None:
    """s, s / P, s / P², … in one partition: each adjustment sets only the largest apart.

    The paper's bound is ⌈log_P 2^32⌉; for P = 65536 it says 3, where that is 2.
    """
    assert bound == math.ceil(32 / math.log2(parts))
    values, value = [0], RANGE // parts - 2
    while value:
        values.append(value)
        value //= parts
    keys = np.resize(np.array(values), 200 * len(values))
    apart = []
    table = table_of(keys.size, parts)
    for at in range(bound + 3):
        fed_from = at * keys.size
        table.expire(fed_from)
        table.insert(keys, np.arange(fed_from, fed_from + keys.size))
        inside = table._links[-1].part.inside
        assert isinstance(inside, Partitioned)
        apart.append(len(set(np.searchsorted(inside.cuts, values, "right").tolist())))
    assert apart[0] == 1
    assert apart == sorted(apart)
    assert apart[bound] == len(values), "each value has a partition of its own"
    assert table.errors[bound:] == pytest.approx([table.errors[bound]] * 3, rel=0.01)


def test_values_that_increase_are_noticed_and_told() -> None:
    rows = 1 << 12
    random = np.random.default_rng(8)
    keys = [np.sort(random.integers(at * 10**6, (at + 1) * 10**6, rows)) for at in range(4)]
    table = fed(table_of(rows, 64), keys)
    assert table.statistics["outside_share"] > 0.99
    assert table.statistics["splitter_error"] > 1.9, "all in the last partition"
    assert "note" in table.details
    assert "100% of the last subwindow's keys" in table.details["note"]
    assert "wib-tree" in table.details["note"]
    again = [np.sort(random.integers(3 * 10**6, 4 * 10**6, rows)) for _ in range(2)]
    for at, part in enumerate(again, 4):
        table.insert(part, np.arange(at * rows, (at + 1) * rows))
    assert table.statistics["outside_share"] < 0.01
    assert "note" not in table.details


def test_a_share_of_keys_outside() -> None:
    table = fed(table_of(100, 4), [np.arange(100), np.arange(40, 140)])
    assert table.outside == [0.4]
    assert "40% of the last" in table.details["note"]


def test_the_first_splitters_come_from_the_first_rows() -> None:
    rows = 1 << 14
    keys = np.random.default_rng(9).normal(0, 10**6, rows).astype(np.int64)
    table = RapTable(capacity=rows, subwindows=1, partitions=64)
    table.insert(keys, np.arange(rows))
    assert table.errors[0] < 0.3
    even = RapTable(capacity=rows, subwindows=1, partitions=64, domain=(-(2**40), 2**40))
    even.insert(keys, np.arange(rows))
    assert even.errors[0] > 1.9


def test_memory_cuts_as_if_several_subwindows_were_one() -> None:
    """Three ranges in turn: with a memory of three, splitters divide all of them."""
    rows, parts = 1 << 14, 48
    random = np.random.default_rng(10)
    ranges = [(0, 10**6), (10**8, 10**9), (-(10**9), -(10**8))]
    story = [random.integers(*ranges[at % 3], rows) for at in range(7)]
    forgetful, remembers = (fed(table_of(rows, parts, memory=memory), story) for memory in (1, 3))
    assert min(forgetful.errors[3:]) > 1.9, "always cut for the range before"
    assert max(remembers.errors[4:]) < 1.4, "a third of the partitions serve each range"
    inside = remembers._links[-1].part.inside
    assert isinstance(inside, Partitioned)
    together = np.searchsorted(inside.cuts, np.concatenate(story[3:6]), "right")
    assert splitter_error(np.bincount(together, minlength=parts)) < 0.1
    remembers.check()


def test_what_was_learned_outlives_the_rows() -> None:
    """All rows expire before the next come."""
    rows = 1 << 12
    keys = [np.random.default_rng(at).integers(0, 10**6, rows) for at in range(3)]
    table = table_of(rows, 16)
    for at, part in enumerate(keys):
        table.insert(part, np.arange(at * rows, (at + 1) * rows))
        table.expire((at + 1) * rows)
        assert len(table) == 0
    assert table.errors[0] > 1.5
    assert table.errors[2] < 0.15


def test_partitions_follow_a_subwindow_that_grows() -> None:
    """More rows stay than the capacity said; partitions keep about 64 rows."""
    index = create("rap-table", capacity=1000, subwindows=2)
    random = np.random.default_rng(11)
    for at in range(0, 16_000, 500):
        index.insert(random.integers(0, 10**6, 500), np.arange(at, at + 500))
    assert isinstance(index, RapTable)
    parts = [link.part.inside for link in index._links]
    assert parts[-1].size > 2 * parts[0].size
    for one in parts:
        assert isinstance(one, Partitioned)
        assert one.parts == one.size // 64
    index.check()


def test_errors_of_the_splitters() -> None:
    assert splitter_error(np.array([5, 5, 5])) == 0
    assert splitter_error(np.array([0, 0, 9, 0])) == pytest.approx(1.5)
    assert splitter_error(np.array([0, 0])) == 0


def test_memory_of_nothing() -> None:
    with pytest.raises(RegistryError, match="rap-table: memory must be at least 1; got 0"):
        create("rap-table", memory=0)


def test_parameters_are_told() -> None:
    index = create("rap-table", capacity=8, memory=3, sigma=1.5, domain=(0, 9))
    told = index.parameters
    assert (told["memory"], told["sigma"], told["domain"]) == (3, 1.5, (0, 9))
    assert told["partitions"] == 0
