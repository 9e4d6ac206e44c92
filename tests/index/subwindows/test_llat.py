"""LLAT: fixed splitters, and 2 P entries that are enough for any keys at any σ above 1."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from thetastream.errors import RegistryError
from thetastream.index import create
from thetastream.index.subwindows.kernels import llat
from thetastream.index.subwindows.llat import LlatIndex
from thetastream.index.subwindows.partitioned import Partitioned

from ...keys import HIGH, LOW, Array

SIGMAS = [math.nextafter(1.0, 2.0), 1.01, 1.1, 1.25, 2.0, 5.0]


def cuts(parts: int) -> Array:
    """Partition ``i`` takes the keys ``[10 i, 10 i + 9]``."""
    return np.arange(1, parts) * 10


def loaded(size: int, parts: int, sigma: float, shares: list[int]) -> Partitioned:
    """A full subwindow with so many rows in its partitions, one after the other, then in turn."""
    one = Partitioned(size, cuts(parts), sigma)
    keys = np.repeat(np.arange(parts) * 10, shares)
    assert keys.size == size
    order = np.random.default_rng(size).permutation(size)
    for at, part in enumerate(np.array_split(keys[order], 3)):
        done = at and one.rows
        one.insert(np.sort(part), np.arange(done, done + part.size))
        one.check()
    return one


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("parts", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("size", [1, 2, 5, 12, 30, 64])
def test_entries_suffice_for_the_worst_distributions(size: int, parts: int, sigma: float) -> None:
    width = math.ceil(size / parts * sigma)
    everything_in_one = [0] * (parts - 1) + [size]
    even = [size // parts + (at < size % parts) for at in range(parts)]
    # As many partitions as possible one row beyond their entry, the others take the rest.
    over, left = [], size
    for _ in range(parts):
        over.append(min(width + 1, left))
        left -= over[-1]
    over[-1] += left
    # All but one filled to the brim.
    full, left = [0] * parts, size
    for at in range(1, parts):
        full[at] = min(width, left)
        left -= full[at]
    full[0] = left
    for shares in (everything_in_one, everything_in_one[::-1], even, over, full):
        one = loaded(size, parts, sigma, shares)
        assert one.histograms()[0].tolist() == shares
        assert one.table.facts[llat.USED] <= 2 * parts == one.table.sizes.size


@given(st.integers(1, 6), st.lists(st.integers(0, 12), min_size=1, max_size=6), st.data())
@example(1, [1], None)
def test_entries_suffice_for_any_distribution(
    parts: int, shares: list[int], data: st.DataObject | None
) -> None:
    shares = (shares + [0] * parts)[:parts]
    shares[0] += not sum(shares)
    sigma = 1.01 if data is None else data.draw(st.sampled_from(SIGMAS))
    loaded(sum(shares), parts, sigma, shares)


def test_splitters_are_those_of_the_first_rows_for_good() -> None:
    index = LlatIndex(capacity=40, subwindows=2, partitions=4)
    index.insert(np.arange(40), np.arange(40))
    index.insert(np.arange(1000, 1040), np.arange(40, 80))
    held = [link.part.inside for link in index._links]
    assert len(held) == 4
    first = held[0]
    assert isinstance(first, Partitioned)
    assert first.histograms()[0].tolist() == [10, 10, 0, 0], "those of a first batch of 40 rows"
    for one in held[1:]:
        assert isinstance(one, Partitioned)
        assert one.cuts is first.cuts
    last = held[-1]
    assert isinstance(last, Partitioned)
    assert last.histograms()[0].tolist() == [0, 0, 0, 20], "they never follow"
    index.check()


def test_splitters_even_over_a_domain() -> None:
    index = LlatIndex(capacity=8, subwindows=1, partitions=4, domain=(0, 2**32 - 1))
    index.insert(np.array([5]), np.array([0]))
    one = index._links[0].part.inside
    assert isinstance(one, Partitioned)
    assert one.cuts.tolist() == [(2**32 - 1) * at // 4 for at in (1, 2, 3)]
    wide = LlatIndex(capacity=8, subwindows=1, partitions=4, domain=(LOW, HIGH))
    wide.insert(np.array([LOW, -2, 0, HIGH]), np.arange(4))
    wide.check()
    one = wide._links[0].part.inside
    assert isinstance(one, Partitioned)
    assert one.histograms()[0].tolist() == [1, 1, 1, 1]


def test_bytes() -> None:
    """2 σ places of 16 bytes per row, and what 2 P entries need."""
    window = 1 << 14
    index = create("llat", capacity=window, subwindows=1)
    index.insert(np.arange(window), np.arange(window))
    assert 2 * 1.25 * 16 * window <= index.nbytes < 2 * 1.25 * 16 * window * 1.05


@pytest.mark.parametrize("name", ["llat", "rap-table"])
@pytest.mark.parametrize("sigma", [1, 1.0, 0.5, -2, math.nan])
def test_sigma_must_be_above_one(name: str, sigma: float) -> None:
    with pytest.raises(RegistryError, match=f"{name}: sigma must be above 1; got {sigma}"):
        create(name, sigma=sigma)


@pytest.mark.parametrize("name", ["llat", "rap-table"])
@pytest.mark.parametrize("domain", [(5, 4), (5, 5)])
def test_a_domain_has_two_ends(name: str, domain: tuple[int, int]) -> None:
    with pytest.raises(RegistryError, match="low < high; got"):
        create(name, domain=domain)


@pytest.mark.parametrize("name", ["bi-sort", "llat", "rap-table", "wib-tree", "subwindows"])
def test_partitions_are_not_negative(name: str) -> None:
    with pytest.raises(RegistryError, match=f"{name}: partitions must be at least 1, or 0"):
        create(name, partitions=-1)


@pytest.mark.parametrize("word", ["subwindows", "threads", "workers"])
@pytest.mark.parametrize("name", ["bi-sort", "llat", "rap-table", "wib-tree", "subwindows"])
def test_numbers_that_must_be_positive(name: str, word: str) -> None:
    with pytest.raises(RegistryError, match=f"{name}: {word} must be at least 1; got 0"):
        create(name, **{word: 0})
