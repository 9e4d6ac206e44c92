"""The figures of the SPO-Join paper, 7 to 23, and seven of our own: cells, and what is claimed.

Lists are chosen so that all of it takes less than 15 minutes on one core. One thread, unless a
label says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from thetabench.figure import Figure, Parameters, Sizes, sized
from thetabench.score import at_least, least, mean, ratio
from thetabench.spo.contestant import (
    BATCH,
    CHAINS,
    CSS,
    LOOPS,
    TAXI,
    WAYS,
    Cell,
    Contestant,
    Rows,
    Work,
    asking,
    batched,
    fitting,
    one,
    rows,
    spo_join,
)

LATENCIES = ("p50_us", "p75_us", "p95_us", "max_us")
ELEMENTS = 10
"""The paper's processing elements: parts of a slide."""
SHARE = 0.1
"""Matches per row over the window in the paper's Q3: 5 % of the pairs, in both roles."""
RATES = (10.0, 600.0, 2490.0)
"""Matches per row: ours, and the least and the most of the paper's Figure 14 (15 M matches of 25 K
rows, 249 M of 100 K)."""
DUCKDB, POLARS = "duckdb-range", "polars-where"
MERGING: dict[str, Parameters] = {
    "one per slide": (("ratio", 0),),
    "one per slide, in the background": (("ratio", 0), ("background", True)),
    "with neighbours": (),
    "with neighbours, in the background": (("background", True),),
}
"""A slide becomes a structure; its neighbours may be merged with it."""
NOT_MEASURED = {
    "16": "it needs several nodes; there is one here. Figure 17 has its threads",
    "18": "our answers are exact at every rate: a test on Spark shows it, tests/spark",
    "19": "no expired row is ever met: a test on Spark shows it, tests/spark",
}
_SLIDES = 10  # of a window
_MILLION = 1_000_000
_BATCHES = (1 << 10, 1 << 13, 1 << 15)

Plan = Callable[[Sizes], list[Cell]]
Who = Callable[..., Iterable[Contestant]]
"""Made of the sizes, a window or slide, and what else a figure says."""


def _each(
    figure: str, counts: Sequence[int], who: Who, *more: Any, weight: float = 1.0, **named: Any
) -> Plan:
    """A cell per size of the window, or of the slide."""
    return lambda sizes: [
        Cell(figure, tuple(who(sizes, count, *more, **named)), weight)
        for count in sized(sizes, *counts)
    ]


def _slide(window: int) -> int:
    return max(16, window // _SLIDES)


# --- The parts, and their latency ----------------------------------------------------------------


def _parts(
    sizes: Sizes, place: int, work: Work, query: str, rate: float, labels: Sequence[str],
    slides: int = 1, batches: Sequence[int] = (1, BATCH),
) -> list[Contestant]:  # fmt: skip
    """A full window; or a growing part, of a window of some slides of its size.

    A rate below 1 is a part of the window.
    """
    window = place * slides
    which = rows(sizes, query, window, rate if rate >= 1 else rate * window)
    return asking(labels, place, work, which, place, batches)


def _latency(sizes: Sizes, window: int) -> list[Contestant]:
    which, slide = rows(sizes, "Q1", window, 10.0), _slide(window)
    return [
        *asking(("po-join", "zoned-runs", CSS[0]), window, Work.PROBE, which, batches=(1,)),
        *asking(_LISTS, window, Work.GROW, which, slide, (1,)),
        spo_join("spo-join", window, Work.SLIDE, which, slide),
    ]


def _thresholds(sizes: Sizes, window: int) -> list[Contestant]:
    """δ1 = slide and δ2 = slide / elements."""
    which, slide = rows(sizes, "Q1", window, 10.0), _slide(window)
    who: list[Contestant] = []
    for name, elements in (("δ1", 1), ("δ2", ELEMENTS)):
        part = max(16, slide // elements)
        who += [
            one(f"po-join, {name}", window, Work.PROBE, which, slide=part),
            one(f"bits, {name}", window, Work.GROW, which, window=part),
            spo_join(f"spo-join, {name}", window, Work.SLIDE, which, slide, elements),
        ]
    return who


def _largest_latency(sizes: Sizes, slide: int) -> list[Contestant]:
    which = rows(sizes, "Q3", slide * _SLIDES, SHARE * slide * _SLIDES)
    return [
        spo_join(f"{count}{note}", slide, Work.PROBE, which, slide, tail=0,
                 parameters=(("workers", workers), ("ratio", merged)))
        for workers, count in ((1, "one worker"), (2, "two workers"))
        for merged, note in ((4, ""), (0, ", one per slide"))
    ]  # fmt: skip


def _trips(sizes: Sizes) -> list[Cell]:
    """The files once; then their rows again and again, to fill larger windows."""
    made = []
    for query, windows in (("Q2", (8_000, 200_000)), ("Q3", (24_000, 600_000))):
        for window in sized(sizes, *windows):
            which = Rows(query, window, SHARE * window, extra=1 << 11, source=TAXI)
            who = asking(_SOME, window, Work.PROBE, which, batches=(1, 64))
            named = (replace(own, label=f"{query}: {own.label}") for own in who)
            made.append(Cell(TAXI, tuple(named)))
    return made


# --- Rivals --------------------------------------------------------------------------------------


def _rivals(
    sizes: Sizes, window: int, query: str, work: Work, labels: Sequence[str],
    batches: Sequence[int] = (1, BATCH), extra: int = 0,
) -> list[Contestant]:  # fmt: skip
    """SPO-Join, which merges after at most 4,096 rows, as it does by default; and others."""
    which, slide = rows(sizes, query, window, 10.0, extra=extra), _slide(window)
    return [
        *(spo_join(batched("spo-join", batch), window, work, which, slide, 0, batch=batch)
          for batch in batches),
        *asking(labels, window, work, which, batches=batches),
    ]  # fmt: skip


# --- Whole joins ---------------------------------------------------------------------------------


def _joins(
    tactics: Sequence[str], place: float, which: Rows, batch: int, note: str = "",
    parameters: Parameters = (), peers: Sequence[str] = (),
) -> tuple[Contestant, ...]:  # fmt: skip
    """Whole joins over the same rows: thetastream's tactics, and peers."""
    names = [(tactic, f"thetastream:tactic={tactic}") for tactic in tactics]
    return tuple(
        Contestant(f"{name}{note}", spec, place, parameters, work=Work.JOIN, rows=which,
                   window=which.window, batch=batch)
        for name, spec in (*names, *zip(peers, peers, strict=True))
    )  # fmt: skip


def _workers(sizes: Sizes) -> list[Cell]:
    (window,) = sized(sizes, _MILLION)
    (batch,) = fitting((1 << 12,), window)
    return [
        Cell("17", _joins(("spo-join", "auto"), threads, rows(sizes, "Q3", window, rate), batch,
                          f", {rate:,.0f} matches per row", (("threads", threads),)))
        for threads in (1, 2) for rate in RATES
    ]  # fmt: skip


def _equality(sizes: Sizes, slide: int, batch: int) -> Iterable[Contestant]:
    which = rows(sizes, "Q1=", slide * _SLIDES, 2.0)
    return _joins(("spo-join", "hash", "auto"), slide, which, batch)


def _peers(
    figure: str, rate: float, counts: Sequence[int], tactics: Sequence[str], peers: Sequence[str],
    sizes: Sizes,
) -> list[Cell]:  # fmt: skip
    """A workload of the same name, by window and batch."""
    windows = sized(sizes, *counts)
    return [
        Cell(figure, _joins(tactics, batch, rows(sizes, figure.upper(), window, rate), batch,
                            f", w = {window:,}" * (len(windows) > 1), peers=peers), 2.0)
        for window in windows for batch in fitting(_BATCHES, window)
    ]  # fmt: skip


# --- Ways to probe, and when to merge ------------------------------------------------------------


def _merges(sizes: Sizes, slide: int) -> Iterable[Contestant]:
    which = rows(sizes, "Q3", slide * _SLIDES, 10.0, extra=12 * slide)
    for label, parameters in MERGING.items():
        yield spo_join(label, slide, Work.MERGE, which, slide, parameters=parameters, tail=0)


def _split(sizes: Sizes) -> list[Cell]:
    (window,) = sized(sizes, _MILLION)
    which = rows(sizes, "Q3", window, 10.0, extra=max(window // 2, 1 << 12))
    made = []
    for percent in (10, 20, 30, 40, 50):
        part = window * percent // 100
        who = [
            *asking(("mutable part",), percent, Work.GROW, which, part),
            *asking(("immutable part",), percent, Work.PROBE, which, window - part),
            *(spo_join(batched("spo-join", batch), percent, Work.SLIDE, which, part, batch=batch,
                       cycle=0) for batch in (1, BATCH)),
        ]  # fmt: skip
        made.append(Cell("21", tuple(who)))
    return made


def _ways(figure: str, place: float, which: Rows, batch: int) -> Cell:
    labels = (*WAYS, "zoned-runs")
    return Cell(
        figure, tuple(one(label, place, Work.PROBE, which, batch=batch) for label in labels)
    )


def _over_batches(sizes: Sizes) -> list[Cell]:
    (window,) = sized(sizes, _MILLION)
    which = rows(sizes, "Q1", window, 10.0)
    batches = fitting([1 << e for e in (0, 4, 7, 10, 12, 15)], which.after)
    return [_ways("probing", batch, which, batch) for batch in batches]


def _over_rates(sizes: Sizes) -> list[Cell]:
    (window,) = sized(sizes, _MILLION)
    return [
        _ways("correlation", rate, rows(sizes, "Q1", window, rate), min(BATCH, int(4e6 / rate)))
        for rate in (10.0**e for e in range(6)) if rate <= window / 8
    ]  # fmt: skip


def _over_shares(sizes: Sizes) -> list[Cell]:
    """Two bands that pass ten rows together; the first passes more or less of all rows."""
    (window,) = sized(sizes, _MILLION)
    return [
        _ways("selectivity", share, rows(sizes, "Q2", window, 10.0, share=share), BATCH)
        for share in (2.0**-e for e in (1, 5, 9, 13, 17)) if share > 5.0 / window
    ]  # fmt: skip


def _policy(sizes: Sizes) -> list[Cell]:
    (window,) = sized(sizes, 500_000)
    which = rows(sizes, "Q1", window, 10.0)
    made = []
    for merged in (0, 2, 4, 8, 12):
        who, settings = [], (("ratio", merged),)
        for batch in fitting(_BATCHES[:2], window):
            who.append(
                Contestant(batched("po-join", batch), "po-join", merged, settings, rows=which,
                           work=Work.SLIDE, window=window, batch=batch, slide=batch,
                           cycle=16 * batch)
            )  # fmt: skip
            who += [
                spo_join(batched(f"spo-join, slide w/{parts}", batch), merged, Work.SLIDE, which,
                         max(16, window // parts), parameters=settings, batch=batch)
                for parts in (16, 64)
            ]  # fmt: skip
        made.append(Cell("policy", tuple(who)))
    return made


_SOME = ("po-join", "zoned-runs", *CSS)
_LISTS = ("bits", "hash")
_TACTICS = ("auto", "spo-join", "spo-join/po-join", "ordered/zoned-runs")
_NOTE = batched("", BATCH)
_SHOWN = ("tuples_per_s", "pairs_per_tuple")

_ALL = (
    Figure("7a", "Q3, immutable part", "window",
           _each("7a", (600_000, 800_000, _MILLION), _parts, Work.PROBE, "Q3", 10.0,
                 ("po-join", "po-join, one per slide", *_SOME[1:])),
           claim="PO-Join is 12–31 × faster than css-trees with bit arrays and 25–57 × faster than "
           "with hash tables, more so for larger windows.",
           holds=at_least(12, least, ratio("po-join", "css-tree, bits")),
           because="14–24 × the css-tree with bits and 196–367 × with hash tables row by row, "
           "338–543 × and thousands in batches. A row on its own costs some 45 µs, most of it "
           "calls from Python; so ratios row by row are smaller than in batches. Merged neighbours "
           "are 4–5 × faster than one structure per slide. Zone maps are 4 × faster still: "
           "correlated keys are what they are made for."),
    Figure("7b", "Q3, mutable part", "slide",
           _each("7b", (60_000, 80_000, 100_000), _parts, Work.GROW, "Q3", 10.0, _LISTS, _SLIDES),
           claim="bit arrays are 9–44 × faster.",
           holds=at_least(9, least, ratio(f"bits{_NOTE}", f"hash{_NOTE}")),
           because="our hash tables are compiled and hold the smaller result, while the paper's "
           "are Java's: 8.0–8.2 × in batches of 1,024, 2.8–3.7 × row by row, where a call costs "
           "about as much as the bits. The must of 5 × is reached in batches only."),
    Figure("7c", "Q3, immutable part, 5 % of the pairs match", "window",
           _each("7c", (600_000, _MILLION), _parts, Work.PROBE, "Q3", SHARE, _SOME),
           claim="this is the match rate of its Figure 7, with 12–31 × and 25–57 × as in 7a.",
           holds=at_least(12, least, ratio("po-join", "css-tree, bits")),
           because="writing 60,000–100,000 pairs per row is most of the work, for all of them: "
           "1.6–1.9 × row by row and 2.6–2.8 × in batches over css-trees with bits; 20–33 × over "
           "hash tables."),
    Figure("8a", "Q2, immutable part", "window",
           _each("8a", (200_000, 600_000, _MILLION), _parts, Work.PROBE, "Q2", 5.0, _SOME),
           claim="1.3–1.6 × faster than the css-tree.",
           holds=at_least(1.3, least, ratio("po-join", "css-tree, bits")),
           because="1.4–1.8 × row by row, 8–25 × in batches."),
    Figure("8b", "Q2, mutable part", "slide",
           _each("8b", (20_000, 60_000, 100_000), _parts, Work.GROW, "Q2", 5.0, _LISTS, _SLIDES),
           claim="bit arrays are 4.9–7 × faster.",
           holds=at_least(4.9, least, ratio(f"bits{_NOTE}", f"hash{_NOTE}")),
           because="bands pass too few rows for the intersection to matter: 1.2 × row by row, "
           "2.9–4.5 × in batches."),
    Figure("9a", "Q1, immutable part", "window",
           _each("9a", (_MILLION, 3 * _MILLION, 5 * _MILLION), _parts, Work.PROBE, "Q1", 10.0,
                 _SOME[:3]),
           claim="12 × and 19 × for slides of 100 k and 200 k; 2–5.4 × for larger ones, which are "
           "cut into parts.",
           holds=at_least(12, least, ratio("po-join", "css-tree, bits")),
           because="19 × at 1 M rows to 133 × at 5 M, row by row, and 364–2,500 × in batches. The "
           "cost of ours hardly grows with the window, as blocks are passed over by their zones; "
           "the css-tree reads half of a term."),
    Figure("9b", "Q1, mutable part", "slide",
           _each("9b", (100_000, 300_000, 500_000), _parts, Work.GROW, "Q1", 10.0, _LISTS, _SLIDES),
           claim="bit arrays are 2–5.2 × faster.",
           holds=at_least(2, least, ratio("bits", "hash")),
           because="2.4–4.9 × row by row, 6.3–7.7 × in batches."),
    Figure("10a", "Q1, latency per row", "window",
           _each("10a", (_MILLION,), _latency, weight=2.0), LATENCIES,
           claim="37 s for the median of the immutable part against 49 s, waiting in queues and "
           "network included; the mutable part is twice as fast with bit arrays.",
           holds=at_least(2, least, ratio("hash", "bits", "p50_us")),
           because="29 µs against 604 µs at the median in the immutable part, 132 µs against "
           "362 µs in the mutable part, without queues and network. The whole of `spo-join` takes "
           "249 µs: asking, inserting and expiring a single row from Python."),
    Figure("10b", "Q1, latency per row, δ1 and δ2", "window",
           _each("10b", (3 * _MILLION,), _thresholds, weight=2.0), LATENCIES,
           claim="δ2 is 70 × better at the median in the immutable part, where δ1 waits for "
           "merges, and 1.5 × in the mutable part.",
           holds=at_least(70, least, ratio("po-join, δ1", "po-join, δ2", "p50_us")),
           because="no row waits for a merge, and ten times as many structures without merged "
           "neighbours (`po-join, δ2`) are 8 × slower. A smaller mutable part is 2.4 × faster at "
           "the median (101 against 238 µs). As `spo-join` merges neighbours, δ2 is 1.8 × better "
           "as a whole."),
    Figure("11a", "Q3, latency per row, chained index", "window",
           _each("11a", (500_000, _MILLION), _rivals, "Q3", Work.SLIDE, CHAINS, (1,), weight=2.0),
           LATENCIES, claim="3.7–11.7 × better at 95 %.",
           holds=at_least(3.7, least, ratio(CHAINS[0], "spo-join", "p95_us")),
           because="3.8 × (500 k) and 8.8 × (1 M) at 95 % against chains with bits, 27 × and more "
           "against the others. Some 215 µs of a row are calls from Python whatever the window, so "
           "the ratio grows with it. The bits of the chained index are ours: only the smaller side "
           "is set, and no pair is written down."),
    Figure("11b", "Q3, nested loops", "window",
           _each("11b", (500_000, _MILLION), _rivals, "Q3", Work.SLIDE, LOOPS),
           claim="71–90 × against broadcast, 32–90 × against split join.",
           holds=at_least(32, least, ratio(f"spo-join{_NOTE}", f"split-join{_NOTE}")),
           because="in batches, 89 × and 178 × against split join; only 3.8–4.4 × row by row, "
           "where 250 µs are calls. Both nested loops compare 64 rows by vector code."),
    Figure("11c", "Q1, latency per row, chained index", "window",
           _each("11c", (_MILLION, 3 * _MILLION), _rivals, "Q1", Work.SLIDE, CHAINS, (1,),
                 weight=2.0),
           LATENCIES, claim="11.9–51 × better at 95 %.",
           holds=at_least(11.9, least, ratio(CHAINS[0], "spo-join", "p95_us")),
           because="calls from Python take most of the time of `spo-join` whatever the window: "
           "3.9 × at 1 M rows and 18.6 × at 3 M against chains with bits (must: 10 ×, missed at "
           "1 M), 44 × and 221 × against hash tables."),
    Figure("11d", "Q1, nested loops", "window",
           _each("11d", (_MILLION, 3 * _MILLION), _rivals, "Q1", Work.SLIDE, LOOPS),
           claim="43 ×.",
           holds=at_least(43, least, ratio(f"spo-join{_NOTE}", f"split-join{_NOTE}")),
           because="in batches of 1,024, 99 × (split join) and 232 × (nested loop); 3.6 × and 29 × "
           "row by row, where the must of 40 × is missed: a row through `spo-join` costs 400 µs of "
           "calls, a scan of a million rows in two threads 1.4 ms."),
    Figure("12", "Q1, insertion", "window",
           _each("12", (500_000, 2 * _MILLION), _rivals, "Q1", Work.INSERT,
                 ("pim-tree, two", "b+tree, two")),
           ("ns_per_tuple",),
           claim="1.3 × slower than PIM-Tree at a window of 10 M rows, 1.5 × faster at 50 M; "
           "1.15–1.7 × faster than the B⁺-tree.",
           holds=False,
           because="`spo-join` is ahead of the PIM-Tree at 500 k rows already: in batches of 1,024 "
           "it takes 0.58–0.76 µs per row, two pim-trees 0.8–1.05 µs, two B⁺-trees 3.6–5 µs. A "
           "single row costs 0.12–0.17 ms in all of them, which is calls."),
    Figure("13", "Q1, memory", "window",
           _each("13", (2 * _MILLION, 8 * _MILLION), _rivals, "Q1", Work.MEMORY,
                 ("po-join", "zoned-runs", "pim-tree, two"), (1,), extra=1 << 10),
           ("bytes_per_row",),
           claim="1.5–2.5 × less than PIM-Tree.",
           holds=at_least(1.5, mean, ratio("pim-tree, two", "spo-join", "bytes_per_row")),
           because="our PIM-Trees are smaller: two of them take 45 bytes per row, 1.39 × the 32.4 "
           "bytes of `spo-join`. Zone maps take 26."),
    Figure("14", "Q3, mutable part, 5 % of the pairs match", "slide",
           _each("14", (25_000, 50_000, 75_000, 100_000), _parts, Work.GROW, "Q3", SHARE, _LISTS,
                 batches=(1, 64)), _SHOWN,
           claim="167 rows per second at 25 k, 114 at 100 k.", holds=True,
           because="there are more, 3.6 k rows per second row by row and 23 k in batches of 64 at "
           "the smallest slide, 2.2 k and 7.2 k at the largest."),
    Figure("15", "Q3, immutable part, 5 % of the pairs match, latency", "slide",
           _each("15", (25_000, 50_000, 75_000, 100_000), _largest_latency), LATENCIES,
           claim="at most 51 ms (25 k) to 190 ms (100 k); 176 ms with more threads.",
           holds=False,
           because="two workers are slower than one: for a single row, waking threads costs more "
           "than they save. Latencies are far below those of the paper: with one worker 0.5–1.8 ms "
           "at the median, 4.5 ms at most."),
    Figure("17", "Q3, whole join by threads, batch 2^12", "threads", _workers,
           claim="419 rows per second with one element, 6,167 with 20 elements on nine nodes.",
           holds=False,
           because="more threads gain little: two gain 7 % at 10 matches per row, and lose where "
           "output is all there is. But one thread alone joins 339 k rows per second at 10 matches "
           "per row (55 × the paper's best mean), 69 k at 600 (11 ×), 21 k at 2,490."),
    Figure("20", "Q3, merging", "slide", _each("20", (60_000, 80_000, 100_000), _merges),
           ("merge_ms", "stall_ms", "p50_us", "p95_us", "max_us"),
           claim="10–15 s for slides of 60–100 k rows; 1–2 s to evaluate the rows that waited.",
           holds=True,
           because="in less time, 4 ms for a slide of 100,000 rows, 14 ms with merges of "
           "neighbours, without the paper's network. In the background no insertion takes longer "
           "than 1.6 ms. With merged neighbours a row asks 4 × faster."),
    Figure("21", "Q3, size of the mutable part, % of the window", "%", _split, logarithmic=False,
           claim="249 rows per second on average in the mutable part at 10 %, 96 at 50 %.",
           holds=True,
           because="2.2 k rows per second at 10 %, 1.3 k at 50 %. The mutable part is the slow one "
           "whatever its size: keep it small. Hence our default of at most 4,096 rows."),
    Figure("22", "Q1 with equality, throughput", "slide",
           _each("22", (10_000, 30_000, 50_000), _equality, BATCH),
           claim="the hash join is 1.14 × faster at slides of 10 k, 6.8 × at 50 k.",
           holds=at_least(1.14, least, ratio("hash", "spo-join")),
           because="3–3.8 × faster; `auto` takes the hash join, and reaches 0.83–0.96 of it in "
           "this short run, in which it also has to find out."),
    Figure("23", "Q1 with equality, latency per row", "slide",
           _each("23", (10_000, 30_000, 50_000), _equality, 1), LATENCIES,
           claim="the hash join's longest latency is 2–2.7 × shorter.",
           holds=at_least(2, least, ratio("spo-join", "hash", "max_us")),
           because="rows are pushed one by one through the whole engine here, and the longest push "
           "takes 12–33 ms with either. At the median the hash join is 1.7–1.8 × better."),
    Figure(TAXI, "Q2 and Q3 over taxi trips, immutable part", "window", _trips, _SHOWN,
           because="with half of the window (Q2) or a tenth of it (Q3) in the answer, all are "
           "bound by writing pairs. `po-join` over css-trees with bits: 0.6–0.8 × for Q2, "
           "1.2–1.6 × for Q3; zone maps win throughout. Most trips begin in the same few streets, "
           "so Q2's bands hold half of all rows."),
    Figure("w2", "workload W2 against peers", "batch",
           partial(_peers, "w2", 10.0, (50_000, 500_000), (*_TACTICS, "ordered/sorted-runs"),
                   (DUCKDB, POLARS)),
           because="`auto` is 33 × DuckDB at 2^13 (109 × at 2^10, 11 × at 2^15) and 13 × Polars "
           "(41 ×, 6.5 ×): the must of 20 × against Polars is missed at 2^13. Peers go through the "
           "whole window for every batch, so larger batches favour them. For w = 50,000 and 2^13 "
           "`auto` was at 0.6 of `ordered/zoned-runs`, which is what it chooses in the end; why "
           "was not looked into. Contestants take turns here, in one process; each in a process of "
           "its own they are faster ([benchmarks](benchmarks.md))."),
    Figure("w3", "workload W3 against peers", "batch",
           partial(_peers, "w3", 5.0, (_MILLION,), _TACTICS, ("duckdb-bucket", "polars-bucket")),
           because="3.5 × DuckDB's buckets at 2^13 (must: 5 ×, missed), 10 × at 2^10, 3.6 × at "
           "2^15. Cells of a band under zone maps win over permutations by 2.7 × and more: each "
           "band alone is selective, so no second order is needed."),
    Figure("probing", "Q1, ways to probe, by batch", "batch", _over_batches,
           because="a scan passes over blocks by their zones and wins at every batch size on such "
           "keys; to fill bits box by box, as the paper does, is 25–450 × slower. A sweep that "
           "cannot be finished in its time is asked with fewer rows (column `asked`), which costs "
           "it most."),
    Figure("correlation", "Q1, ways to probe, by match rate", "match rate", _over_rates,
           because="zones win as long as keys are correlated. At 10,000 matches per row of a "
           "million the sweep passes the scan (9.4 against 6.9), and `auto` with it; at 100,000 "
           "pairs per row all write pairs."),
    Figure("selectivity", "two bands, ways to probe, by the first one's share", "share",
           _over_shares,
           because="where the first term passes a share of 2^-5 or more and the second is "
           "selective, `po-join` is 5 × to 100 × faster than zone maps, as it can go along either "
           "term. (In a join, `auto` puts the selective term first.)"),
    Figure("policy", "Q1, merging neighbours", "ratio", _policy, logarithmic=False,
           because="never merging (ratio 0, the paper's list) is worst by far; 4 is best. With a "
           "whole slide in the mutable part (w/16: 31,250 rows) everything is 2–4 × slower than "
           "with a quarter of it."),
)  # fmt: skip
FIGURES: dict[str, Figure[Cell]] = {figure.name: figure for figure in _ALL}
"""Every experiment by name, in the order of the paper."""
