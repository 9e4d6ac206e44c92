"""The named experiments: Figures 4 and 10–15 of the PanJoin paper, and three of our own.

Lists are chosen so that all of it takes less than 20 minutes on one core. One thread, where the
paper has up to eight. Figure 15g and h, PanJoin in Apache Storm, are missing: the Spark benchmark
takes their place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from thetabench.figure import Figure, Lines, Parameters, Sizes, power
from thetabench.panjoin.contestant import BTREES, REPEATED, Cell, Contestant, Work
from thetabench.panjoin.phases import ALL, SUBWINDOWS, phases
from thetabench.panjoin.splitters import DISTRIBUTIONS, INCREASING, RANGE, WORST
from thetabench.score import at_least, least, most, ratio
from thetastream.datasets.keys import DOMAIN

STRUCTURES = ("rap-table", "wib-tree", "bi-sort")
HOME = "ordered"
"""The engine's default: sorted runs."""
TACTICS = (*(f"panjoin/{name}" for name in STRUCTURES), HOME)
SMALL = 1 << 10
"""The selectivity below which structures without sorted arrays are judged."""
_STORM = "Storm; `thetastream bench spark` measures the join inside a stream processor"
NOT_MEASURED = {"15g": _STORM, "15h": _STORM}
_BATCHES = (6, 8, 10, 12, 14, 16, 18, 20, 23)
_FEW_BATCHES = (6, 9, 12, 15, 18)
_SELECTIVITIES = (0, 2, 5, 8, 11, 14)

Who = Callable[[Sizes, int], Iterable[Contestant]]
Plan = Callable[[Sizes], list[Cell]]
Places = Callable[[Sizes], list[int]]


def _one(label: str, name: str, place: float, work: Work, rows: int, batch: int,
         parameters: Parameters = (), **more: Any) -> Contestant:  # fmt: skip
    """A contestant; BI-Sort answers with ranges, as in the paper, unless told otherwise."""
    ranges = name.startswith("bi-sort") and work in (Work.EQUI, Work.BAND)
    return Contestant(label, name, place, parameters, work=work, rows=rows, batch=min(batch, rows),
                      **{"output": "ranges" if ranges else "pairs", **more})  # fmt: skip


def _settings(name: str, subwindows: int = 1, **more: Any) -> Parameters:
    """The parameters of a structure.

    A RaP-Table starts with splitters that are right for uniform keys: as after its adjustment.
    """
    domain = {"domain": (0, DOMAIN - 1)} if name == "rap-table" else {}
    return (("subwindows", subwindows), *more.items(), *domain.items())


def _single(name: str, partitions: int = 0, **more: Any) -> Parameters:
    """The parameters of a single subwindow."""
    return (*_settings(name, partitions=partitions), *more.items())


def powers(exponents: Iterable[int], most: float) -> list[int]:
    """The powers of two up to a limit.

    >>> powers((4, 8, 12), 300)
    [16, 256]
    """
    return [1 << e for e in exponents if 1 << e <= most]


def _batches(window: int, *exponents: int) -> Places:
    """The batch sizes that a window of 2^window rows is large enough for."""
    return lambda sizes: powers(exponents, sizes.window(window))


def _matches(window: int, *exponents: int) -> Places:
    """The values of S that it is large enough for."""
    return lambda sizes: powers(exponents, sizes.window(window) / 8)


def _each(figure: str, places: Places, who: Who, weight: float = 1.0) -> Plan:
    """A cell per place."""
    return lambda sizes: [Cell(figure, tuple(who(sizes, place)), weight) for place in places(sizes)]


# --- Figures 10a–e, 11a–e, 12a–e: one structure --------------------------------------------------


_ALONE: dict[str, tuple[str, Work, str, tuple[tuple[int, int], ...], Places]] = {
    "a": ("insertion, partitions", Work.INSERT, "P = {p}", ((23, 10), (23, 13), (23, 16)),
          _batches(23, *_BATCHES)),
    "b": ("insertion, subwindow sizes", Work.INSERT, "N_Sub = {rows}",
          ((17, 12), (19, 12), (21, 12), (23, 12)), _batches(23, *_FEW_BATCHES)),
    "c": ("equi probing, S = 1", Work.EQUI, "N_Sub = {rows}, P = {p}",
          ((19, 12), (19, 16), (23, 12), (23, 16)), _batches(23, *_FEW_BATCHES)),
    "d": ("equi probing", Work.EQUI, "P = {p}", ((22, 10), (22, 13), (22, 16)),
          _matches(22, *_SELECTIVITIES)),
    "e": ("band probing", Work.BAND, "P = {p}", ((23, 10), (23, 13), (23, 16)),
          _matches(23, *_SELECTIVITIES)),
}  # fmt: skip
"""By letter: what it is about, the work, labels, exponents of N_Sub and P, and the places."""


def _alone(figure: str, claim: str, because: str = "", *, holds: bool = True) -> Figure[Cell]:
    """The experiment of a letter with the structure of a number; places are batches, or S."""
    name, letter = STRUCTURES[int(figure[:2]) - 10], figure[2]
    about, work, label, shapes, places = _ALONE[letter]

    def who(sizes: Sizes, place: int) -> Iterator[Contestant]:
        batch, matches = (1 << 13, place) if letter in "de" else (place, int(work is Work.EQUI))
        for rows, p in dict.fromkeys((sizes.window(n), sizes.scaled(p, 2)) for n, p in shapes):
            if place <= rows:
                yield _one(label.format(rows=power(rows), p=power(p)), name, place, work, rows,
                           batch, _single(name, p), matches=matches)  # fmt: skip

    axis, cells = "selectivity" if letter in "de" else "batch", _each(figure, places, who)
    return Figure(figure, f"{name}: {about}", axis, cells, claim=claim, holds=holds,
                  because=because)  # fmt: skip


# --- Figures 4 and 10f: splitters ----------------------------------------------------------------


def _table(label: str, rows: int, partitions: int, distribution: str) -> Contestant:
    parameters = (("subwindows", 1), ("partitions", partitions), ("domain", (0, RANGE - 1)))
    return _one(label, "rap-table", 0, Work.SPLITTERS, rows, 0, parameters,
                distribution=distribution)  # fmt: skip


def _adjustment(sizes: Sizes) -> list[Cell]:
    return [
        Cell("10f", (_table(f"{name}, P = {power(p)}", sizes.window(20), p, name),))
        for name in (*DISTRIBUTIONS, INCREASING)
        for p in dict.fromkeys(sizes.scaled(e, 2) for e in (8, 10))
    ]


def _worst_case(sizes: Sizes) -> list[Cell]:
    rows = sizes.window(18)
    return [Cell("4", (_table(WORST, rows, p, WORST),)) for p in powers((4, 8, 10, 16), rows)]


def _bounded(lines: Lines) -> bool:
    return all(0 <= line.iterations <= line.bound for line in lines if line.ran)


def _converged(lines: Lines) -> bool:
    own = [line for line in lines if line.ran and line.distribution != INCREASING]
    return all(0 <= line.iterations <= 3 for line in own)


# --- Figures 11f, leaves, 12f: what is special about a structure ---------------------------------


def _against_b_trees(sizes: Sizes) -> list[Cell]:
    works = (
        (Work.INSERT, "insertion", 1.0),
        (Work.EQUI, "equi probing", 1.0),
        (Work.BAND, "band probing", 64.0),
    )
    own = {"wib-tree": _single("wib-tree", sizes.scaled(17, 2)), "b+tree": (), BTREES: ()}
    rows = sizes.window(23)
    return [
        Cell("11f", tuple(
            _one(f"{name}, {what}", name, batch, work, rows, batch, parameters, matches=matches)
            for name, parameters in own.items()
        ))
        for batch in powers((8, 10, 12, 15, 18), rows) for work, what, matches in works
    ]  # fmt: skip


def _leaves(sizes: Sizes, width: int) -> Iterator[Contestant]:
    rows = sizes.window(20)
    for label, in_order in (("unsorted leaves", False), ("sorted leaves", True)):
        yield _one(label, "wib-tree", width, Work.INSERT, rows, min(1 << 10, rows // 4),
                   _single("wib-tree", rows // width, sorted_leaves=in_order))  # fmt: skip


def _buffers(sizes: Sizes, buffer: int) -> Iterator[Contestant]:
    rows, parameters = sizes.window(16), _single("bi-sort", buffer=buffer)
    for batch in powers((4, 6, 8), rows // 4):
        yield _one(f"insertion, N_Bat = {power(batch)}", "bi-sort", buffer, Work.INSERT, rows,
                   batch, parameters)  # fmt: skip
        yield _one(f"probing, N_Bat = {power(batch)}", "bi-sort", buffer, Work.EQUI, rows, batch,
                   parameters, matches=1.0, tail=buffer // 2)  # fmt: skip


# --- Figures 13 and 14: structures side by side --------------------------------------------------


def _beside(names: Iterable[str], work: Work, sizes: Sizes, place: int) -> Iterator[Contestant]:
    """Structures with 2^16 partitions; probing has S = 1 or, for bands, S as the place."""
    rows, band = sizes.window(23), work is Work.BAND
    matches = {Work.INSERT: 0, Work.EQUI: 1, Work.BAND: place}[work]
    shared = (place, work, rows, 1 << 15 if band else place)
    for name in names:
        if name == "nested-loop":
            scan = _single("subwindows", inside="nested-loop")
            yield _one(name, "subwindows", *shared, scan, matches=matches)
        else:
            yield _one(name, name, *shared, _single(name, sizes.scaled(16, 2)), matches=matches)


def _bands(sizes: Sizes, place: int) -> list[Contestant]:
    who = list(_beside((*STRUCTURES, "nested-loop"), Work.BAND, sizes, place))
    bi_sort = next(one for one in who if one.structure == "bi-sort")
    return [*who, replace(bi_sort, label="bi-sort, pairs", output="pairs")]


# --- Figure 15 and W1: whole windows and whole joins ---------------------------------------------


def _joins(sizes: Sizes, batch: int, matches: float, place: int, output: str = "count",
           **more: Any) -> Iterator[Contestant]:  # fmt: skip
    rows = sizes.window(20)
    for tactic in TACTICS:
        yield _one(tactic, tactic, place, Work.JOIN, rows, batch, matches=matches, output=output,
                   **more)  # fmt: skip


def _results(sizes: Sizes, s: int) -> Iterator[Contestant]:
    counting = {one.label: one for one in _joins(sizes, 1 << 15, s, s)}
    for tactic, one in counting.items():
        for output in ("rows", "count"):
            yield replace(one, label=f"{tactic}, {output}", output=output)


def _workers(sizes: Sizes, subwindows: int) -> Iterator[Contestant]:
    rows = sizes.window(20)
    for name in STRUCTURES:
        for workers, count in ((1, "one worker"), (2, "2 workers")):
            for s in (1.0, 64.0):
                yield _one(f"{name}, {count}, S = {power(s)}", name, subwindows, Work.SLIDE, rows,
                           min(1 << 15, rows // 4), _settings(name, subwindows, workers=workers),
                           matches=s)  # fmt: skip


def _comparison(window: int, sizes: Sizes, s: int) -> Iterator[Contestant]:
    """What a probe costs in a window of 16 subwindows."""
    shared = (s, Work.BAND, sizes.window(window), 1 << 15)
    for name in STRUCTURES:
        yield _one(name, name, *shared, _settings(name, 16), matches=s)
    scan = _settings("subwindows", 16, inside="nested-loop")
    yield _one("nested-loop", "subwindows", *shared, scan, matches=s)


def _w1(sizes: Sizes) -> list[Cell]:
    return [
        Cell("w1", tuple(
            _one(f"{tactic}, w = {power(rows)}", tactic, batch, Work.JOIN, rows, batch,
                 matches=2.0, output="rows")
            for tactic in TACTICS
        ), 2.0)
        for rows in sizes.windows(20, 23) for batch in powers((10, 13, 15), rows)
    ]  # fmt: skip


def _phases(sizes: Sizes) -> list[Cell]:
    rows = sizes.window(20)
    who = (
        _one(inside, "subwindows", ALL, Work.PHASES, rows, phases(rows)[0].batch,
             _settings("subwindows", SUBWINDOWS, inside=inside))
        for inside in ("auto", "bi-sort", "rap-table", "wib-tree")
    )  # fmt: skip
    return [Cell("phases", tuple(who))]


def small(lines: Lines) -> Lines:
    """Lines with a small S."""
    return [line for line in lines if line.place < SMALL]


_INSERTED = _batches(23, *_BATCHES)
_DEVICE = ("bi-sort", "bi-sort-opencl")

_ALL = (
    Figure("4", "worst case of the splitters' adjustment", "partitions", _worst_case,
           ("iterations", "bound"), holds=_bounded,
           claim="four adjustments at most for P = 2^10. For P = 2^16 the paper says three, but "
           "log_P 2^32 is two.",
           because="one adjustment fewer than the bound each time, as the first splitters come "
           "from a histogram already."),
    _alone("10a", "larger batches are faster, as rows of one partition share memory accesses; "
           "fewer partitions save time in the search. The peak is 100 million rows per second, at "
           "a batch of 2^23.",
           "the peak is the same (113 million rows per second), at a batch of 2^20. A batch of "
           "2^23 fills the subwindow from empty, so all its memory is touched for the first time: "
           "five times slower."),
    _alone("10b", "a slight advantage of small subwindows."),
    _alone("10c", "smaller partitions are faster, and smaller subwindows.",
           "a partition of 2,048 keys (N_Sub = 2^23, P = 2^12) costs three times one of 128."),
    _alone("10d", "the larger S, the slower; for small S more partitions are faster.",
           "from S = 2^11 on, writing pairs is all that counts, and P does not matter."),
    _alone("10e", "as with equality.",
           "a band costs a third more than a single key, as it may reach into the next partition."),
    Figure("10f", "rap-table: error of the splitters", "iteration", _adjustment,
           ("splitter_error",), logarithmic=False, holds=_converged,
           claim="one to three adjustments are enough for each distribution; fewer partitions "
           "converge sooner and end with a smaller error.",
           because="at most three adjustments are needed. Increasing keys are never divided well; "
           "`outside_share` says so."),
    _alone("11a", "larger batches are faster; P hardly matters, as leaves are not sorted.",
           "more leaves cost up to half: the last places of 2^16 leaves do not fit the cache, nor "
           "do all bounds. Insertion is still two to ten times as fast as into the B⁺-tree of 11f.",
           holds=False),
    _alone("11b", "subwindows above 2^19 rows are slower: they do not fit into the cache.",
           "small subwindows, which fit the cache, are twice as fast."),
    _alone("11c", "like RaP-Table."),
    _alone("11d", "slower when S is large; good from P = 2^14 on."),
    _alone("11e", "the same.",
           "at P = 2^10 it is as fast as the RaP-Table, or faster: leaves are 69 % full, and both "
           "only scan."),
    Figure("11f", "wib-tree and B-trees", "batch", _against_b_trees, holds=False,
           claim="over Google's B-tree, insertion is 3.5 to 4.5 times faster, equi probing up to "
           "2.8 times, band probing up to 1.3 times.",
           because="equi probing gains less (up to 1.7 ×, and nothing at batches of 2^8): scanning "
           "128 keys costs about what the B⁺-tree's descent does. Insertion gains more than in the "
           "paper (3.4 to 9.7 ×), as rows come in blocks whose cache misses overlap, while the "
           "B⁺-tree takes them one by one. Band probing gains more, too (1.5 to 1.8 ×)."),
    Figure("leaves", "wib-tree: sorted and unsorted leaves, insertion", "leaf width",
           _each("leaves", lambda sizes: powers((4, 6, 8, 10, 12, 14), sizes.window(20) // 4),
                 _leaves), holds=True,
           claim="(Section III-C) unsorted leaves take 3 to 5 times less time to insert into.",
           because="3 to 5 × is the gain of leaves of 2^8. Below 2^6 there is little to move; for "
           "wide leaves sorting costs O(width) per row, and not sorting wins by any factor. The "
           "mean in the table above is mostly that of the wide ones."),
    _alone("12a", "(eight threads) the same up to the size of the buffer, then faster with the "
           "batch; P does not matter.",
           "up to the size of the buffer (2^10) the batch size hardly matters. A large batch is "
           "merged at 30 million rows per second in one thread."),
    _alone("12b", "large subwindows are much slower when batches are small, because each merge "
           "moves the main array."),
    _alone("12c", "the size of a partition matters only for small batches."),
    _alone("12d", "S hardly matters, as only the ends of the answer are looked for; more "
           "partitions are faster.",
           "it gets faster above S = 2^8, as there are fewer distinct keys to ask for, and equal "
           "boxes follow each other."),
    _alone("12e", "S does not matter.",
           "the speed falls by a third from S = 1 to S = 2^8, and stays there: the two edges of a "
           "box then lie in different partitions, so each has cache misses of its own.",
           holds=False),
    Figure("12f", "bi-sort: buffer size", "buffer",
           _each("12f", lambda sizes: powers((4, 6, 8, 10, 12, 14), sizes.window(16) // 2),
                 _buffers, 0.5), holds=False,
           claim="a large buffer makes small insertions faster by two to three orders of "
           "magnitude; as it is not sorted, every probe has to look at all of it.",
           because="a call takes at least 27 to 34 µs, whatever the buffer, and a merge of "
           "2^16 rows little more. Our buffer is sorted, which makes probes independent of its "
           "size."),
    Figure("13a", "insertion", "batch",
           _each("13a", _INSERTED, partial(_beside, (*STRUCTURES, "nested-loop"), Work.INSERT)),
           claim="BI-Sort is the fastest only for batches above 2^16.", holds=False,
           because="our BI-Sort merges with one thread here, theirs with eight: it overtakes the "
           "WiB⁺-Tree at batches of 2^19 and the RaP-Table only when a batch is the whole "
           "subwindow. The nested loop only appends."),
    Figure("13b", "band probing", "selectivity", _each("13b", _matches(23, *range(0, 15, 2)),
                                                       _bands),
           claim="for S < 2^10 RaP-Table is 1.7 to 2.4 times faster than WiB⁺-Tree, and BI-Sort "
           "1.6 to 7 times faster than RaP-Table. For large S BI-Sort is 100 times faster.",
           holds=lambda lines: at_least(1.7, least, ratio("rap-table", "wib-tree"))(small(lines)),
           because="RaP-Table leads WiB⁺-Tree by 1.07 to 1.43 × only: with bounds compared by "
           "vector code, and each search going on from the box before, going down the tree costs "
           "some 25 to 50 ns more than searching the splitters, beside a scan of 128 keys from "
           "memory (200 ns and more) which both do. BI-Sort's lead is that of the paper. With "
           "pairs written down, as a join of rows needs them, it leads the RaP-Table by 1.4 to "
           "2.2 ×."),
    Figure("14a", "bi-sort on an OpenCL device: insertion", "batch",
           _each("14a", _INSERTED, partial(_beside, _DEVICE, Work.INSERT)),
           claim="on an FPGA with slow memory, 0.4 to 0.6 times the speed of the CPU, with a "
           "quarter of the energy.", holds=False,
           because="the device is PoCL on the same two cores, so this shows that the design works, "
           "not what an accelerator gains: 0.2 to 0.75 of BI-Sort in Numba."),
    Figure("14b", "bi-sort on an OpenCL device: equi probing", "batch",
           _each("14b", _batches(23, 6, 9, 12, 15, 18, 20), partial(_beside, _DEVICE, Work.EQUI)),
           claim="faster than the other two structures on the CPU from a batch of 2^16 on.",
           holds=True,
           because="at a batch of 2^18 it is ahead of both (10c and 11c, P = 2^16), but the device "
           "is the same two cores. It reaches 0.9 of the processor's version at large batches, as "
           "both cores work. A call with 64 boxes takes 330 µs, against 66 on the processor: "
           "starting kernels costs that, and small batches do not repay it."),
    Figure("15a", "join, equality, S = 1", "batch",
           _each("15a", _batches(20, 8, 10, 12, 15, 18, 20),
                 lambda sizes, batch: _joins(sizes, batch, 1.0, batch, distribution=REPEATED)),
           claim="(W = 2^27, 16 nodes per stream) BI-Sort is the fastest, with up to 28.9 million "
           "rows per second.", holds=True,
           because="BI-Sort is the fastest of the paper's three, with one process in place of 32 "
           "nodes, and counts as the answer. A push costs some 200 µs of Python, which decides "
           "below batches of 2^12. Sorted runs (`ordered`) are 1 to 2 × as fast as the best chain: "
           "they visit about three runs, a chain five subwindows."),
    Figure("15b", "join, band", "selectivity",
           _each("15b", _matches(20, *_SELECTIVITIES),
                 lambda sizes, s: _joins(sizes, 1 << 15, s, s)),
           claim="RaP-Table and WiB⁺-Tree become slower with S; sending rows to the nodes is more "
           "than 60 % of the time.", holds=True,
           because="BI-Sort keeps its speed, the others fall with S. Sorted runs count in the same "
           "way, and are faster. No rows are sent here."),
    Figure("15c", "join, band: rows against their number", "selectivity",
           _each("15c", _matches(20, 0, 2, 4, 6, 8, 10), _results),
           ("tuples_per_s", "result_share"), holds=False,
           claim="above S = 2^10, receiving results takes more than 90 % of the time with "
           "RaP-Table and WiB⁺-Tree.",
           because="RaP-Table and WiB⁺-Tree have to visit each row even to count it. For what "
           "keeps sorted arrays, making rows does take more than 90 % of the time at S = 2^10."),
    Figure("15d", "moving window: workers and subwindows", "subwindows",
           _each("15d", lambda sizes: [2, 4, 8, 16, 32], _workers, 0.5), holds=True,
           claim="(W = 2^30) more nodes are not always faster, because communication decides.",
           because="two workers gain nothing with two subwindows, 1.2 to 1.7 × with more (2.05 × "
           "once). Every subwindow is probed for every row, so few are better as long as each "
           "worker has some; more mean fewer expired rows and finer dealing. With two workers an "
           "answer is computed ahead and held, so all of it is read before it is looked at."),
    Figure("15e", "band probing against nested loops, 16 subwindows", "selectivity",
           _each("15e", _matches(23, 0, 2, 4, 6, 8, 10, 12), partial(_comparison, 23)),
           claim="BI-Sort is more than 1000 times faster, the others more than 100 times when S is "
           "small, and not at all when S is above 2^12.",
           holds=at_least(1000, least, ratio("bi-sort", "nested-loop")),
           because="all three are more than 2,000 × as fast as nested loops at S = 1, and the "
           "others still more than 200 × at S = 2^12, the largest that was measured. BI-Sort is no "
           "faster than the others at S = 1: with 16 subwindows of 2^19 rows they scan partitions "
           "in the cache, and its records, one per box and subwindow, have to be written."),
    Figure("15f", "band probing against nested loops, a larger window", "selectivity",
           _each("15f", _matches(24, 0, 6, 12), partial(_comparison, 24)),
           claim="BI-Sort 5000 times faster, the others 100 to 5000 times for S up to 2^10.",
           holds=at_least(5000, most, ratio("bi-sort", "nested-loop")),
           because="the window is an eighth of the paper's: all three are more than 3,000 × as "
           "fast at S = 1. The others stay within the paper's range."),
    Figure("w1", "workload W1 against the default index", "batch", _w1,
           because="sorted runs stay the default. They are 1.5 to 2.8 × as fast: merging rows "
           "again and again costs less than probing every subwindow for every row. What a chain "
           "has for it is that rows are stored once, leave at once, and that subwindows can be "
           "dealt out; and counts and ranges without the cost of expired rows in a long run."),
    Figure("phases", "traffic that changes: the rule beside each structure", "phase", _phases,
           ("ns_per_tuple",), logarithmic=False,
           because="one run. Over all phases `auto` is 1 % ahead of BI-Sort, which is within the "
           "noise: no better than BI-Sort alone, and clearly better than the other two fixed "
           "structures. It is the fastest in no single phase. In every phase some fixed structure "
           "is faster, by 1 to 28 %, because old subwindows stay for a whole window after a "
           "change, and each choice waits for the next subwindow. Against BI-Sort it gains 7 to "
           "10 % in phases 2, 3 and 5, and loses 16 % in phase 4, where the RaP-Tables of phase 3 "
           "are still asked, and 6 % in phase 6, where the drift begins inside an open RaP-Table. "
           "Phases that go on for longer were not measured. If nothing is known of the traffic, "
           "BI-Sort is as good a choice as the rule; a RaP-Table alone is the risk."),
)  # fmt: skip
FIGURES: dict[str, Figure[Cell]] = {figure.name: figure for figure in _ALL}
"""Every experiment by name, in the order of the paper."""
