"""The experiments of the PIM-Tree paper: what is measured, how it is checked and shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from thetabench.contestant import MissingPackage, Unavailable
from thetabench.digest import Digest, VerificationError, mix
from thetabench.figure import Sizes
from thetabench.line import Line
from thetabench.pim import contestant as contestants
from thetabench.pim.contestant import Cell, Contestant, Indexed, Joiner, make
from thetabench.pim.figures import FIGURES
from thetabench.pim.inserts import landed, spread
from thetabench.pim.ordered import KINDS, OrderedSetJoin
from thetabench.pim.paper import PAPER
from thetabench.pim.stream import Shape, Stream, pairs, truths
from thetabench.pim.trial import PimCourse
from thetastream.errors import RegistryError
from thetastream.index.trees.kernels import css, forest
from thetastream.index.trees.kernels import store as layout

TINY = Sizes(scale=2.0**-13, seconds=0.002)
SHAPES = {
    "two-way": Shape(40),
    "uneven": Shape(30, 70, share=0.8, match_rate=5.0),
    "self-join": Shape(50, self_join=True, match_rate=4.0),
    "drift": Shape(32, drift=1.0, self_join=True),
    "many": Shape(64, match_rate=20.0, seed=3),
}


def measured(plan: list[Cell], **more: Any) -> list[Line]:
    return [line for lines in PAPER.run(plan, TINY, **more) for line in lines]


# --- Tuples --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_reference_agrees_with_a_nested_loop(shape: Shape) -> None:
    stream, stop = Stream(shape), 300
    found = sorted(
        pair
        for positions, numbers in pairs(stream, stop)
        for pair in zip(positions.tolist(), numbers.tolist(), strict=True)
    )
    assert found == nested_loop(stream, stop)
    assert len(found) > 100
    right = truths(stream, [100, 300])
    assert right[300] == digest_of(found)
    assert right[100] == digest_of([pair for pair in found if pair[0] < 100])


def nested_loop(stream: Stream, stop: int) -> list[tuple[int, int]]:
    seen: list[list[int]] = [[] for _ in stream.windows]
    for side, key in zip(*(part.tolist() for part in stream.fill()), strict=True):
        seen[side].append(key)
    found = []
    arriving = zip(*(part.tolist() for part in stream.tuples(0, stop)), strict=True)
    for at, (side, key) in enumerate(arriving):
        other = side if stream.shape.self_join else 1 - side
        first = max(0, len(seen[other]) - stream.windows[other])
        for number in range(first, len(seen[other])):
            if abs(seen[other][number] - key) <= stream.width:
                found.append((at, number))
        seen[side].append(key)
    return found


def digest_of(found: list[tuple[int, int]]) -> Digest:
    both = np.array(found, np.int64).reshape(-1, 2)
    return Digest(len(both), int(mix(both[:, 0], both[:, 1]).sum(dtype=np.uint64)))


def test_tuples_are_the_same_however_they_are_asked_for() -> None:
    stream, again = Stream(Shape(100)), Stream(Shape(100))
    long = stream.tuples(0, 600_000)
    again.tuples(0, 5)
    for start, stop in ((0, 10), (262_140, 262_150), (300_000, 600_000), (7, 7)):
        for part, whole in zip(again.tuples(start, stop), long, strict=True):
            assert part.tolist() == whole[start:stop].tolist()
    other = Stream(Shape(100, seed=1)).tuples(0, 100)
    assert other[1].tolist() != long[1][:100].tolist()


def test_the_fill_is_exactly_the_windows_and_shares_are_kept() -> None:
    stream = Stream(Shape(300, 700, share=0.9))
    sides, keys = stream.fill()
    assert np.bincount(sides).tolist() == [300, 700]
    assert not np.any(keys & 1), "keys are even"
    assert np.mean(stream.tuples(0, 20_000)[0] == 0) == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize(
    "shape",
    [
        Shape(4096),
        Shape(4096, self_join=True),
        Shape(2048, 8192, share=0.3),
        Shape(4096, match_rate=64.0),
        *(Shape(4096, distribution=name) for name in ("gaussian", "gamma")),
        Shape(4096, drift=0.0, self_join=True),
    ],
    ids=str,
)
def test_the_match_rate_is_what_was_asked_for(shape: Shape) -> None:
    rate = truths(Stream(shape), [20_000])[20_000].matches / 20_000
    assert rate == pytest.approx(shape.match_rate, rel=0.08)


def test_a_drift_has_three_phases() -> None:
    shape = Shape(1000, drift=1.0, self_join=True)
    _, keys = Stream(shape).tuples(0, shape.legs[-1])
    first, second, third = np.split(keys, shape.legs[:2])
    assert [len(part) for part in (first, second, third)] == [2000, 6000, 3000]
    assert first.mean() == pytest.approx(0.5 * 2**31, rel=0.02)
    assert third.mean() == pytest.approx(1.1 * 2**31, rel=0.02)
    assert second[:500].mean() < second[-500:].mean()


# --- Contestants ---------------------------------------------------------------------------------


def answer(joiner: Joiner, stream: Stream, stop: int, chunk: int) -> list[tuple[int, int]]:
    joiner.fill(*stream.fill())
    found = []
    for start in range(0, stop, chunk):
        sides, keys = stream.tuples(start, min(start + chunk, stop))
        for positions, numbers in joiner.run(sides, keys, *stream.boxes(keys)):
            found += zip((positions + start).tolist(), numbers.tolist(), strict=True)
    return sorted(found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["two-way", "uneven", "many"])
def test_joins_on_ordered_sets_are_right_at_the_ends_of_the_domain_too(
    kind: str, name: str
) -> None:
    stream = Stream(SHAPES[name])
    assert stream.width > 2**20, "boxes reach beyond the domain"
    found = answer(OrderedSetJoin(kind, stream.shape.windows), stream, 300, 77)
    assert found == nested_loop(stream, 300)


def test_a_contestant_that_cannot_be_had_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unavailable, match="no structure bw-tree"):
        make(Contestant("", "bw-tree", 0), Shape(8))

    def missing(*given: Any) -> None:
        raise MissingPackage("BTrees is not installed")

    monkeypatch.setattr(contestants, "OrderedSetJoin", missing)
    who = tuple(Contestant(name, name, 64) for name in ("btrees", "pim-tree"))
    results = measured([Cell("peers", who, shape=Shape(64))])
    assert [(r.contestant, r.status) for r in results] == [
        ("btrees", "not run"),
        ("pim-tree", "ok"),
    ]
    assert "not installed" in results[0].reason
    assert results[0].tuples == 0


def test_merges_are_counted_and_times_hold_whole_cycles() -> None:
    stream = Stream(Shape(64, 128))
    who = Contestant("", "pim-tree", 0, parameters=(("merge_ratio", 0.25),))
    assert (who.limit(64), who.limit(128), who.cycle(stream.shape)) == (16, 32, 64)
    rows, merges = [64, 128], 0
    for at, side in enumerate(stream.tuples(0, 500)[0].tolist()):
        merges += at >= 100 and rows[side] % (16, 32)[side] == 0
        rows[side] += 1
    assert who.merges(stream, 100, 500) == merges > 10
    chain = Contestant("", "chained", 0, parameters=(("length", 5),))
    assert chain.cycle(Shape(64)) == 32
    assert chain.cycle(Shape(64, self_join=True)) == 16
    assert Contestant("", "b+tree", 0).merges(stream, 0, 500) == 0


def test_inserts_land_where_a_real_tree_puts_them() -> None:
    stream = Stream(Shape(4096, drift=1.0, self_join=True))
    who = Contestant("", "pim-tree", 0, parameters=(("merge_ratio", 0.5),))
    joiner = Indexed(who, stream.shape)
    joiner.fill(*stream.fill())
    moved = 2 * 4096 + 3000
    sides, keys = stream.tuples(0, moved)
    list(joiner.run(sides, keys, *stream.boxes(keys, empty=True)))
    everything = np.concatenate([stream.fill()[1], keys])
    merged = everything.size // 2048 * 2048
    expected = landed(everything[merged - 4096 : merged], everything[merged:])
    assert occupied(joiner).tolist() == expected.tolist()
    assert expected.size == 4096 // (32 * 16)
    assert spread(stream, who).sum() == 6 * 4096


def occupied(joiner: Indexed) -> np.ndarray:
    """Rows of each subindex of the left side, by walking its leaves."""
    pool = joiner._pool
    facts, nodes = pool.side(0), pool.store.forest
    heads = int(pool.arena(pool.arenas_of(0)[0])[forest.LEAF_FIRST])
    run = pool.run(int(facts[layout.RUNS_FIRST]))
    parts = int(run[css.NODES + int(facts[layout.DEPTH])])
    counts, part, leaf = np.zeros(parts, np.int64), -1, heads
    while leaf >= 0:
        part += heads <= leaf < heads + parts
        counts[part] += nodes.sizes[leaf]
        leaf = int(nodes.nexts[leaf])
    return counts


# --- Plans ---------------------------------------------------------------------------------------


def test_the_cells_are_those_that_were_asked_for() -> None:
    plan = PAPER.cells((), Sizes())
    windows = [cell.shape.window for cell in plan if cell.figure == "10a"]
    assert windows == [2**e for e in range(16, 24)]
    for figure, place in (("peers", 0), ("merge", 0), ("8b", 0), ("12a", 0), ("10c", -1)):
        own = [cell for cell in plan if cell.figure == figure]
        assert own[place].shape.window == 2**20
    assert {who.task_size for c in plan if c.figure == "10c" for who in c.contestants} >= {8, 64}
    assert {who.threads for c in plan if c.figure == "12a" for who in c.contestants} == set(
        range(5)
    )
    for figure in FIGURES.values():
        assert {cell.figure for cell in figure.cells(Sizes())} == {figure.name}


def test_figures_can_be_chosen() -> None:
    def names(*asked: str) -> list[str]:
        return list(dict.fromkeys(cell.figure for cell in PAPER.cells(asked, TINY)))

    assert names("12") == ["12a", "12b", "12c"]
    assert names("9", "14") == ["9a", "9b", "9c", "9d", "14"]
    assert names("peers", "9c") == ["9c", "peers"]
    with pytest.raises(RegistryError, match="Did you mean 'peers'"):
        names("pers")
    with pytest.raises(RegistryError, match="memory bandwidth"):
        names("11d")


def test_a_smaller_scale_has_smaller_windows_and_shorter_times() -> None:
    assert Sizes.of(0.25, None).seconds == pytest.approx(0.375)
    assert Sizes.of(0.25, 2.0).seconds == 2.0
    assert Sizes.of(4.0, None).windows(16) == [2**18]
    small = PAPER.cells((), Sizes(0.01))
    assert max(max(cell.shape.windows) for cell in small) == 2**16
    assert min(min(cell.shape.windows) for cell in small) == 2**8


# --- Runs ----------------------------------------------------------------------------------------


def test_a_small_run_of_some_figures_is_verified() -> None:
    steps: list[str] = []
    names = ["8a", "8b", "8c", "9b", "9c", "10a", "11a", "13a", "14", "peers", "cost"]
    results = measured(PAPER.cells(names, TINY), say=steps.append)
    assert any("checking answers" in step for step in steps)
    for result in results:
        if result.structure == "optimistic-tree" and not result.ran:
            continue
        assert result.ran, result.reason
        assert result.figure == "13a" or result.verified
        assert result.figure == "13a" or result.pairs > 0
        for column in FIGURES[result.figure].measures[:1]:
            assert getattr(result, column) > 0, column
    steps_of = {r.contestant: r for r in results if r.figure == "9b"}
    assert steps_of["b+tree"].ns_delete > 0 == steps_of["b+tree"].ns_merge
    assert steps_of["pim-tree"].ns_merge > 0 == steps_of["pim-tree"].ns_delete
    for line in steps_of.values():
        assert line.ns_descend + line.ns_scan == pytest.approx(line.ns_search)
    memory = {r.contestant: r.bytes_per_row for r in results if r.figure == "11a"}
    assert memory["pim-tree, m = 1, with merge buffer"] > memory["pim-tree, m = 1"] + 15
    assert all(r.predicted_ns > 0 for r in results if r.figure == "cost")


def test_parallel_joins_are_measured_with_their_tasks_and_phases() -> None:
    shape = Shape(256, match_rate=2.0)
    who = [
        Contestant(f"{merge} merge", "pim-tree", 1.0, threads=2, merge=merge, record=True)
        for merge in ("non-blocking", "blocking")
    ]
    drift = Shape(256, drift=0.6, self_join=True)
    drifting = Cell("13b", (replace(who[0], label="r"),), shape=drift)
    results = measured([Cell("10d", tuple(who), shape=shape), drifting])
    for line in results[:2]:
        assert line.verified
        assert line.tasks >= line.tuples // 8
        assert 0 < line.p50_us <= line.p99_us <= line.p999_us <= line.max_us
        assert line.merges > 0
    assert [(line.place, line.verified) for line in results[2:]] == [(n, True) for n in (1, 2, 3)]
    assert [line.tuples for line in results[3:]] == [6 * 256, 3 * 256]


class Wrong:
    """A join that changes what it hands out."""

    def __init__(self, joiner: Joiner, change: str) -> None:
        self._joiner = joiner
        self._change = change
        self.fill = joiner.fill
        self._turn = 0

    def run(self, *arrays: Any) -> Iterator[tuple[Any, Any]]:
        for positions, numbers in self._joiner.run(*arrays):
            self._turn += 1
            if self._turn == 2 and self._change == "drop":
                yield positions[:-1], numbers[:-1]
            elif self._turn == 2 and self._change == "shift":
                yield positions, np.concatenate([numbers[:-1], numbers[-1:] + 1])
            elif self._turn == 2 and self._change == "double":
                yield positions, numbers
                yield positions[:1], numbers[:1]
            else:
                yield positions, numbers


@pytest.mark.parametrize("change", ["drop", "shift", "double"])
def test_a_wrong_answer_ends_the_run(change: str) -> None:
    def wrong(who: Contestant, shape: Shape) -> Joiner:
        made = make(who, shape)
        return Wrong(made, change) if who.structure == "im-tree" else made  # type: ignore[return-value]

    paper = replace(PAPER, course=partial(PimCourse, maker=wrong))
    with pytest.raises(VerificationError, match="im-tree .* gave a wrong answer"):
        list(paper.run(paper.cells(["10a"], TINY), TINY))


def test_a_pair_in_an_empty_box_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Indexed.run

    def wrong(self: Indexed, sides: Any, keys: Any, lows: Any, highs: Any) -> Iterator[Any]:
        yield from honest(self, sides, keys, lows, highs)
        if lows[0] == highs[0]:
            yield np.zeros(1, np.int64), np.zeros(1, np.int64)

    monkeypatch.setattr(Indexed, "run", wrong)
    with pytest.raises(VerificationError, match="boxes that hold no key"):
        measured(PAPER.cells(["9b"], TINY))
