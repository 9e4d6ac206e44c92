"""The radix trie as an index: forms, memory, the mapper against first/next, limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from thetastream.errors import RegistryError
from thetastream.index.folding import Fold
from thetastream.index.ordered.kernels.trie import arena
from thetastream.index.ordered.radix_trie import RadixTrie

SMALL = {"run": 4, "linear": 3, "full": 32}


def forms(index: RadixTrie) -> dict[str, int]:
    """How many slots of each form there are, found by walking the words."""
    names = ("EMPTY", "ONE", "RUN", "BITS", "LINEAR", "BITMAP", "FULL")
    found: dict[str, int] = {}
    todo = [0]
    while todo:
        slot = todo.pop()
        head, body = int(index._trie.bits[slot]), int(index._words[slot + 1])
        name = names[head & 7]
        found[name] = found.get(name, 0) + 1
        if name in ("LINEAR", "BITMAP"):
            first = body + (2 if name == "LINEAR" else 6)
            todo += range(first, first + 2 * ((head >> 8) & 0xFFFF), 2)
        if name == "FULL":
            todo += [s for s in range(body + 2, body + 514, 2) if index._words[s]]
    return found


def filled(keys: Any, **settings: int) -> RadixTrie:
    keys = np.asarray(keys, np.int64)
    index = RadixTrie(**settings)
    index.insert(keys, np.arange(keys.size))
    index.check()
    return index


def test_forms_follow_population() -> None:
    assert forms(filled([])) == {"EMPTY": 1}
    assert forms(filled(range(20))) == {"RUN": 1}
    assert forms(filled(np.arange(0, 4 << 8, 1 << 8), **SMALL)) == {"RUN": 1}
    assert forms(filled([0, 256, 512, 1, 2], **SMALL)) == {"LINEAR": 1, "RUN": 1, "ONE": 2}
    assert forms(filled(np.arange(20) << 8, **SMALL)) == {"BITMAP": 1, "ONE": 20}
    assert forms(filled(np.arange(40) << 8, **SMALL)) == {"FULL": 1, "ONE": 40}
    assert forms(filled(range(512), **SMALL)) == {"LINEAR": 1, "BITS": 2}


def test_common_bytes_are_skipped() -> None:
    """Keys that differ in their last two bytes only: one branch, not seven."""
    index = filled((123 << 48) + np.arange(0, 65_536, 13))
    found = forms(index)
    assert sum(found.get(name, 0) for name in ("LINEAR", "BITMAP", "FULL")) == 1
    index.insert(np.array([-5]), np.array([65_536]))
    index.check()
    assert forms(index)["LINEAR"] == 1, "a branch above the prefix"


def test_deletion_takes_the_forms_back() -> None:
    keys = np.arange(512) << 8
    index = filled(keys, **SMALL)
    for start in range(0, 512, 16):
        ids = np.arange(start, start + 16)
        assert index.remove(keys[ids], ids) == 16
        index.check()
    assert forms(index) == {"EMPTY": 1}
    assert index._facts[arena.TOP] == 1, "all blocks were given back"
    assert index.nbytes <= filled([]).nbytes
    index.insert(keys, np.arange(512) + 512)
    index.check()


def test_hysteresis() -> None:
    """A key that comes and goes at a threshold changes no form."""
    index = filled(np.arange(40) << 8, **SMALL)
    for count in range(39, 10, -1):
        index.remove(np.array([count << 8]), np.array([count]))
        assert ("FULL" in forms(index)) == (count >= 8), count
    for row in range(40, 60):
        index.insert(np.array([20 << 8]), np.array([row]))
        assert "FULL" in forms(index)
        index.remove(np.array([20 << 8]), np.array([row]))
        assert "FULL" in forms(index)


def test_rows_of_one_key() -> None:
    index = filled(np.full(1000, 7))
    assert index.find(np.array([7])).tolist() == [999]
    rng = np.random.default_rng(3)
    left = set(range(1000))
    for row in rng.permutation(1000)[:990].tolist():
        assert index.remove(np.array([7, 7, 8]), np.array([row, row, row])) == 1
        left.remove(row)
    index.check()
    assert index.dump()[1].tolist() == sorted(left)


@pytest.mark.parametrize("settings", [{}, SMALL])
@pytest.mark.parametrize("spread", [40, 5000, 1 << 33])
def test_mapper_agrees_with_first_next(settings: dict[str, int], spread: int) -> None:
    rng = np.random.default_rng(11)
    keys = rng.integers(-spread, spread, 3000)
    index = filled(keys, **settings)
    index.expire(700)
    lows, highs = rng.integers(-spread - 3, spread + 3, (2, 60))
    mapped, iterated = Fold(None, 60), Fold(None, 60)
    index.fold_boxes(lows, highs, mapped)
    index.first_next(lows, highs, iterated)
    ids = np.arange(3000)
    for box in range(60):
        wanted = ids[(keys >= lows[box]) & (keys <= highs[box]) & (ids >= 700)]
        for fold in (mapped, iterated):
            assert fold.counts[box] == wanted.size
            assert fold.totals[box] == wanted.sum()
            if wanted.size:
                assert (fold.least[box], fold.greatest[box]) == (wanted[0], wanted[-1])


def test_memory_of_dense_and_random_keys() -> None:
    """Bytes per pair: a flat array takes 16."""
    rng = np.random.default_rng(5)
    dense = rng.permutation(1 << 17)
    assert filled_in_batches(dense).nbytes / dense.size < 12
    sparse = np.unique(rng.integers(0, 1 << 32, 1 << 17))
    assert filled_in_batches(sparse).nbytes / sparse.size < 24
    wide = np.unique(rng.integers(-(1 << 63), (1 << 63) - 1, 1 << 17))
    assert filled_in_batches(wide).nbytes / wide.size < 24


def filled_in_batches(keys: Any) -> RadixTrie:
    index = RadixTrie()
    for start in range(0, keys.size, 10_000):
        part = keys[start : start + 10_000]
        index.insert(part, np.arange(start, start + part.size))
    return index


def test_limits_are_refused() -> None:
    for wrong in ({"run": 1}, {"run": 70_000}, {"linear": 9}, {"full": 257}, {"full": 4}):
        with pytest.raises(RegistryError, match="radix-trie"):
            RadixTrie(**wrong)
