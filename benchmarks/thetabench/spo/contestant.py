"""Who is measured, doing what, over which rows; and the structures of the paper by label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from thetabench import figure
from thetabench.figure import Parameters, Sizes, power

TAXI = "taxi"
"""Rows of the real taxi sets, instead of synthetic ones."""
BATCH = 1 << 10
"""Rows that ask at a time, where it is not one."""
_LEAST = 256
_MOST_RATE = 1 / 8  # of the window: smaller runs keep the queries what they are


class Work(Enum):
    """What is timed."""

    PROBE = "probe"
    """Rows ask a full window that stays as it is: the immutable part."""
    GROW = "grow"
    """Rows ask a part that is half full, and go into it: the mutable part."""
    SLIDE = "slide"
    """Rows ask a full window, rows go in, old ones expire."""
    INSERT = "insert"
    """Rows go into a full window, old ones expire; there are no probes."""
    MEMORY = "memory"
    """Nothing is timed: a full window is weighed."""
    MERGE = "merge"
    """The mutable part becomes immutable, while single rows ask."""
    JOIN = "join"
    """Rows are pushed into a whole join, thetastream's or a peer's."""


@dataclass(frozen=True)
class Rows:
    """Which rows: those of a query whose match rate holds for a window."""

    query: str
    """``Q1``, ``Q1=``, ``Q2``, ``Q3``; for whole joins also ``W2`` and ``W3``."""
    window: int
    rate: float
    """Matches per arriving row, at a full window."""
    extra: int = 0
    """Rows of a side after the first window; 0 for as many as there usually are."""
    share: float = 0.0
    """Part of all pairs that the first term of Q2 passes; 0 for as many as the second."""
    source: str = "synthetic"
    seed: int = 0

    @property
    def after(self) -> int:
        """Rows of a side after the first window."""
        return self.extra or min(1 << 18, max(4 * _LEAST, self.window))


@dataclass(frozen=True, kw_only=True)
class Contestant(figure.Contestant):
    """A structure or, for ``Work.JOIN``, a peer, as in ``thetastream:tactic=auto``."""

    work: Work
    rows: Rows
    window: int
    """Rows stored: those of the window, or those a growing part is full with."""
    batch: int = 1
    """Rows that ask at a time."""
    slide: int = 0
    """Rows per insertion while the window is filled; 0 for a tenth of the window."""
    tail: int = 0
    """How many of the last rows go in a few at a time, so that they stay in a mutable part."""
    cycle: int = 0
    """Rows after which it has merged once more: as many are timed, if they do not take too long."""

    @property
    def step(self) -> int:
        """Rows per insertion while the window is filled."""
        return self.slide or max(1, self.window // 10)

    @property
    def few(self) -> int:
        """Rows per insertion that go into a mutable part: less than a quarter of it."""
        return max(1, min(_LEAST, self.step // 5))


Cell = figure.Cell[Contestant]


def fitting(batches: Sequence[int], window: int) -> list[int]:
    """Batches that are no larger than the window; none occurs twice.

    >>> fitting((1024, 8192, 32768), 5000)
    [1024, 5000]
    """
    return list(dict.fromkeys(min(batch, window) for batch in batches))


def rows(sizes: Sizes, query: str, window: int, rate: float, **more: Any) -> Rows:
    """Rows of a query; a small window has a smaller match rate.

    >>> rows(Sizes(), "Q3", 320, 100.0).rate
    40.0
    """
    return Rows(query, window, min(rate, window * _MOST_RATE), seed=sizes.seed, **more)


# --- Structures ----------------------------------------------------------------------------------


def _per_term(inner: str, intersect: str = "bits") -> tuple[str, Parameters]:
    """One structure per term, and how their answers are intersected."""
    return "per-term", (("inner", inner), ("intersect", intersect))


CSS = ("css-tree, bits", "css-tree, hash")
CHAINS = ("chained index, bits", "chained index, hash", "chained index of one term")
LOOPS = ("split-join", "nested-loop")
WAYS = tuple(f"po-join, {way}" for way in ("fill", "sweep", "scan", "auto"))
KINDS: dict[str, tuple[str, Parameters]] = {
    **dict.fromkeys(("po-join", "immutable part"), ("po-join", ())),
    **dict.fromkeys(("po-join, one per slide", "po-join, δ1", "po-join, δ2"),
                    ("po-join", (("ratio", 0),))),
    **{label: ("po-join", (("probing", label.partition(", ")[2]),)) for label in WAYS},
    "zoned-runs": ("zoned-runs", ()),
    **{label: _per_term("css-tree", label[-4:]) for label in CSS},
    **{label: _per_term("chained", label[-4:]) for label in CHAINS[:2]},
    "chained index of one term": ("chained", ()),
    **dict.fromkeys(("bits", "bits, δ1", "bits, δ2", "mutable part", "b+tree, two"),
                    _per_term("b+tree")),
    "hash": _per_term("b+tree", "hash"),
    "pim-tree, two": _per_term("pim-tree"),
    "split-join": ("split-join", (("workers", 2),)),
    "nested-loop": ("nested-loop", ()),
}  # fmt: skip
"""Structure and parameters by label."""


def batched(label: str, batch: int) -> str:
    """The label of a contestant that is asked batch by batch."""
    return label if batch == 1 else f"{label}, batch {power(batch)}"


def one(label: str, place: float, work: Work, which: Rows, **more: Any) -> Contestant:
    """A structure by label; its window is that of the rows, unless ``more`` has another."""
    structure, parameters = KINDS[label]
    own = {"work": work, "rows": which, "window": which.window, **more}
    return Contestant(label, structure, place, parameters, **own)


def asking(
    labels: Sequence[str], place: float, work: Work, which: Rows, window: int = 0,
    batches: Sequence[int] = (1, BATCH), slide: int = 0,
) -> list[Contestant]:  # fmt: skip
    """Structures asked row by row, and batch by batch."""
    window = window or which.window
    room = max(1, window // 4) if work is Work.GROW else window
    return [
        replace(one(label, place, work, which, window=window, batch=batch, slide=slide),
                label=batched(label, batch))
        for batch in fitting(batches, room) for label in labels
    ]  # fmt: skip


def spo_join(
    label: str, place: float, work: Work, which: Rows, slide: int, elements: int = 1,
    parameters: Parameters = (), **more: Any,
) -> Contestant:  # fmt: skip
    """A ``spo-join`` whose mutable part is half full at the start, unless ``more`` overrides it.

    ``elements`` 0: as many as the structure itself divides a slide by.
    """
    part = max(1, slide // (elements or -(-slide // 4096)))
    own = {"window": which.window, "slide": part, "tail": part // 2, "cycle": part, **more}
    settings = (("slide", slide), ("elements", elements), *parameters)
    return Contestant(label, "spo-join", place, settings, work=work, rows=which, **own)
