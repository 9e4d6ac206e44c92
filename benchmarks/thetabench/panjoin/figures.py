"""The named experiments: Figures 10–15 of the PanJoin paper, Figure 4, and three of our own.

Lists are chosen so that all of it takes less than 20 minutes on one core. One thread, where the
paper has up to eight. Figure 15g and h, PanJoin in Apache Storm, are missing: the Spark benchmark
takes their place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from thetabench import figure as plans
from thetabench.figure import Figure, Sizes, power
from thetabench.panjoin import phases, systems
from thetabench.panjoin.plan import Cell, Contestant, Work
from thetabench.panjoin.splitters import DISTRIBUTIONS, INCREASING, RANGE, WORST
from thetabench.panjoin.structures import BTREES
from thetastream.datasets.keys import DOMAIN

__all__ = ["FIGURES", "SECONDS", "cells", "chosen"]

SECONDS = 0.3
"""Timed seconds per contestant and cell."""
NAMES = {"10": "rap-table", "11": "wib-tree", "12": "bi-sort"}
BATCHES = (6, 8, 10, 12, 14, 16, 18, 20, 23)
SELECTIVITIES = (0, 2, 5, 8, 11, 14)
_STORM = "Storm; `thetastream bench spark` measures the join inside a stream processor"
NOT_MEASURED = {"15g": _STORM, "15h": _STORM}

Parameters = tuple[tuple[str, Any], ...]


def one(name: str, partitions: int = 0, **more: Any) -> Parameters:
    """The parameters of a single subwindow.

    A RaP-Table starts with splitters that are right for uniform keys: as after its adjustment.
    """
    found: dict[str, Any] = {"subwindows": 1, "partitions": partitions}
    if name == "rap-table":
        found["domain"] = (0, DOMAIN - 1)
    return (*found.items(), *more.items())


def powers(exponents: Sequence[int], most: float) -> list[int]:
    """The powers of two up to a limit.

    >>> powers((4, 8, 12), 300)
    [16, 256]
    """
    return [1 << e for e in exponents if 1 << e <= most]


def selectivities(rows: int, exponents: Sequence[int] = SELECTIVITIES) -> list[int]:
    """The values of S that a subwindow is large enough for."""
    return powers(exponents, rows / 8)


def _answers(name: str) -> str:
    """BI-Sort answers with ranges, as in the paper."""
    return "ranges" if name.startswith("bi-sort") else "pairs"


# --- Figures 10a–e, 11a–e, 12a–e: one structure --------------------------------------------------


def _over_partitions(figure: str, sizes: Sizes) -> list[Cell]:
    """Insertion over the batch size for several P."""
    name, rows = NAMES[figure[:2]], sizes.window(23)
    made = []
    for batch in powers(BATCHES, rows):
        who = [
            Contestant(f"P = {power(p)}", name, batch, Work.INSERT, rows, batch,
                       parameters=one(name, p))
            for p in _partitions(sizes, 10, 13, 16)
        ]  # fmt: skip
        made.append(Cell(figure, tuple(who)))
    return made


def _over_sizes(figure: str, sizes: Sizes) -> list[Cell]:
    """Insertion over the batch size for several N_Sub."""
    name, partitions = NAMES[figure[:2]], sizes.scaled(12, 2)
    made = []
    for batch in powers((6, 9, 12, 15, 18), sizes.window(23)):
        who = [
            Contestant(f"N_Sub = {power(rows)}", name, batch, Work.INSERT, rows, batch,
                       parameters=one(name, partitions))
            for rows in sizes.windows(17, 19, 21, 23)
            if batch <= rows
        ]  # fmt: skip
        made.append(Cell(figure, tuple(who)))
    return made


def _equi_over_batches(figure: str, sizes: Sizes) -> list[Cell]:
    """Equi probing, S = 1, for several N_Sub and P."""
    name = NAMES[figure[:2]]
    shapes = [(19, 12), (19, 16), (23, 12), (23, 16)]
    made = []
    for batch in powers((6, 9, 12, 15, 18), sizes.window(23)):
        who = [
            Contestant(f"N_Sub = {power(sizes.window(n))}, P = {power(sizes.scaled(p, 2))}", name,
                       batch, Work.EQUI, sizes.window(n), batch, 1.0,
                       one(name, sizes.scaled(p, 2)), _answers(name))
            for n, p in shapes
            if batch <= sizes.window(n)
        ]  # fmt: skip
        made.append(Cell(figure, tuple({w.label: w for w in who}.values())))
    return made


def _over_matches(figure: str, work: Work, exponent: int, sizes: Sizes) -> list[Cell]:
    """Probing over S for several P."""
    name, rows, batch = NAMES[figure[:2]], sizes.window(exponent), 1 << 13
    made = []
    for matches in selectivities(rows):
        who = [
            Contestant(f"P = {power(p)}", name, matches, work, rows, min(batch, rows), matches,
                       one(name, p), _answers(name))
            for p in _partitions(sizes, 10, 13, 16)
        ]  # fmt: skip
        made.append(Cell(figure, tuple(who)))
    return made


def _partitions(sizes: Sizes, *exponents: int) -> list[int]:
    return list(dict.fromkeys(sizes.scaled(e, 2) for e in exponents))


# --- Figures 4 and 10f: splitters ----------------------------------------------------------------


def _table(label: str, rows: int, partitions: int, distribution: str) -> Contestant:
    parameters = (("subwindows", 1), ("partitions", partitions), ("domain", (0, RANGE - 1)))
    return Contestant(label, "rap-table", 0, Work.SPLITTERS, rows, 0, parameters=parameters,
                      distribution=distribution)  # fmt: skip


def _adjustment(sizes: Sizes) -> list[Cell]:
    rows = sizes.window(20)
    return [
        Cell("10f", (_table(f"{distribution}, P = {power(p)}", rows, p, distribution),))
        for distribution in (*DISTRIBUTIONS, INCREASING)
        for p in _partitions(sizes, 8, 10)
    ]


def _worst_case(sizes: Sizes) -> list[Cell]:
    rows = sizes.window(18)
    return [
        Cell("4", (_table(WORST, rows, 1 << e, WORST),)) for e in (4, 8, 10, 16) if 1 << e <= rows
    ]


# --- Figures 11f, leaves, 12f: what is special about a structure ---------------------------------


def _against_b_trees(sizes: Sizes) -> list[Cell]:
    rows = sizes.window(23)
    parameters = {"wib-tree": one("wib-tree", sizes.scaled(17, 2)), "b+tree": (), BTREES: ()}
    made = []
    for batch in powers((8, 10, 12, 15, 18), rows):
        for work, what in (
            (Work.INSERT, "insertion"), (Work.EQUI, "equi probing"), (Work.BAND, "band probing"),
        ):  # fmt: skip
            who = [
                Contestant(f"{name}, {what}", name, batch, work, rows, batch,
                           64.0 if work is Work.BAND else 1.0, own)
                for name, own in parameters.items()
            ]  # fmt: skip
            made.append(Cell("11f", tuple(who)))
    return made


def _leaves(sizes: Sizes) -> list[Cell]:
    rows, batch = sizes.window(20), 1 << 10
    made = []
    for width in powers((4, 6, 8, 10, 12, 14), rows // 4):
        who = [
            Contestant(label, "wib-tree", width, Work.INSERT, rows, min(batch, rows // 4),
                       parameters=one("wib-tree", rows // width, sorted_leaves=in_order))
            for label, in_order in (("unsorted leaves", False), ("sorted leaves", True))
        ]  # fmt: skip
        made.append(Cell("leaves", tuple(who)))
    return made


def _buffers(sizes: Sizes) -> list[Cell]:
    rows = sizes.window(16)
    made = []
    for buffer in powers((4, 6, 8, 10, 12, 14), rows // 2):
        who = []
        for batch in powers((4, 6, 8), rows // 4):
            shared: dict[str, Any] = {"parameters": one("bi-sort", 0, buffer=buffer)}
            who.append(Contestant(f"insertion, N_Bat = {power(batch)}", "bi-sort", buffer,
                                  Work.INSERT, rows, batch, **shared))  # fmt: skip
            who.append(Contestant(f"probing, N_Bat = {power(batch)}", "bi-sort", buffer, Work.EQUI,
                                  rows, batch, 1.0, **shared, output="ranges",
                                  tail=buffer // 2))  # fmt: skip
        made.append(Cell("12f", tuple(who), 0.5))
    return made


# --- Figures 13 and 14: structures side by side --------------------------------------------------


def _insertions(figure: str, sizes: Sizes) -> list[Cell]:
    rows = sizes.window(23)
    made = []
    for batch in powers(BATCHES, rows):
        who = [
            Contestant(label, name, batch, Work.INSERT, rows, batch, parameters=own)
            for label, name, own in _shown(figure, sizes)
        ]
        made.append(Cell(figure, tuple(who)))
    return made


def _bands(sizes: Sizes) -> list[Cell]:
    rows = sizes.window(23)
    batch = min(1 << 15, rows)
    made = []
    for matches in selectivities(rows, range(0, 15, 2)):
        who = [
            Contestant(label, name, matches, Work.BAND, rows, batch, matches, own, _answers(name))
            for label, name, own in _shown("13b", sizes)
        ]
        bi_sort = next(w for w in who if w.label == "bi-sort")
        pairs = {**vars(bi_sort), "label": "bi-sort, pairs", "output": "pairs"}
        made.append(Cell("13b", (*who, Contestant(**pairs))))
    return made


def _accelerated(sizes: Sizes) -> list[Cell]:
    rows = sizes.window(23)
    return [
        Cell("14b", tuple(
            Contestant(label, name, batch, Work.EQUI, rows, batch, 1.0, own, "ranges")
            for label, name, own in _shown("14b", sizes)
        ))
        for batch in powers((6, 9, 12, 15, 18, 20), rows)
    ]  # fmt: skip


def _shown(figure: str, sizes: Sizes) -> list[tuple[str, str, Parameters]]:
    """Who competes: label, index, parameters."""
    partitions = sizes.scaled(16, 2)
    names = ("bi-sort", "bi-sort-opencl") if figure[:2] == "14" else tuple(NAMES.values())
    found = [(name, name, one(name, partitions)) for name in names]
    if figure[:2] == "13":
        found.append(("nested-loop", "subwindows", one("subwindows", inside="nested-loop")))
    return found


def _of_each(
    letter: str, about: str, axis: str, cells: Callable[[str, Sizes], list[Cell]]
) -> dict[str, Figure[Cell]]:
    """The same experiment with each of the three structures."""
    return {
        f"{number}{letter}": Figure(f"{number}{letter}", f"{name}: {about}", axis,
                                    partial(cells, f"{number}{letter}"))
        for number, name in NAMES.items()
    }  # fmt: skip


def _equi(figure: str, sizes: Sizes) -> list[Cell]:
    return _over_matches(figure, Work.EQUI, 22, sizes)


def _band(figure: str, sizes: Sizes) -> list[Cell]:
    return _over_matches(figure, Work.BAND, 23, sizes)


_ALONE: dict[str, Figure[Cell]] = {
    **_of_each("a", "insertion, partitions", "batch", _over_partitions),
    **_of_each("b", "insertion, subwindow sizes", "batch", _over_sizes),
    **_of_each("c", "equi probing, S = 1", "batch", _equi_over_batches),
    **_of_each("d", "equi probing", "selectivity", _equi),
    **_of_each("e", "band probing", "selectivity", _band),
}
_SPECIAL = (
    Figure("4", "worst case of the splitters' adjustment", "partitions", _worst_case,
           ("iterations", "bound")),
    Figure("10f", "rap-table: error of the splitters", "iteration", _adjustment,
           ("splitter_error",), logarithmic=False),
    Figure("11f", "wib-tree and B-trees", "batch", _against_b_trees),
    Figure("leaves", "wib-tree: sorted and unsorted leaves, insertion", "leaf width", _leaves),
    Figure("12f", "bi-sort: buffer size", "buffer", _buffers),
    Figure("13a", "insertion", "batch", partial(_insertions, "13a")),
    Figure("13b", "band probing", "selectivity", _bands),
    Figure("14a", "bi-sort on an OpenCL device: insertion", "batch", partial(_insertions, "14a")),
    Figure("14b", "bi-sort on an OpenCL device: equi probing", "batch", _accelerated),
)  # fmt: skip
_ALL = {
    **_ALONE,
    **{figure.name: figure for figure in (*_SPECIAL, *systems.FIGURES, phases.FIGURE)},
}
_ORDER = (
    "4",
    *("10a", "10b", "10c", "10d", "10e", "10f", "11a", "11b", "11c", "11d", "11e", "11f", "leaves"),
    *("12a", "12b", "12c", "12d", "12e", "12f", "13a", "13b", "14a", "14b"),
    *(figure.name for figure in systems.FIGURES),
    phases.FIGURE.name,
)

FIGURES: dict[str, Figure[Cell]] = {name: _ALL[name] for name in _ORDER}
"""Every experiment by name, in the order of the paper."""


def chosen(names: Sequence[str] = ()) -> list[Figure[Cell]]:
    """The experiments asked for, or all; a number alone asks for all parts of that figure.

    >>> [figure.name for figure in chosen(["4", "14"])]
    ['4', '14a', '14b']
    """
    return plans.chosen(FIGURES, names, NOT_MEASURED)


def cells(names: Sequence[str], sizes: Sizes) -> list[Cell]:
    """All cells of the experiments asked for."""
    return [cell for figure in chosen(names) for cell in figure.cells(sizes)]
