"""What a tuple costs: Equations 1–6 of the PIM-Tree paper, with constants measured on the machine.

Notation of the paper (Section 2), and what stands for it here::

    w                        window                    rows of the window, the same on both sides
    σ_s                      match_rate                rows of the window that a tuple meets
    f_b, f_ib                fan-out                   children of an inner node
    H_b, H_c, H_p            Tree.height               of B⁺-trees: window, subindex, partition
    H_I, H'_I, H_S           Tree.height               of T_I, of a PIM-Tree's subindex, of T_S
    λ_b^s, λ_b^i, λ_b^d      search, insert, delete    per node of a B⁺-tree
    λ_ib^s                   immutable                 search, per node of an immutable B⁺-tree
    τ_c                      compare, compare_run      per row that is read and compared
    M / (m w)                merge, merge_young        a merge, by the rows that it reads

``C_T = C_S + C_D + C_I`` (Equation 1) is ``Cost.total``. The paper counts merges as deletion (Step
2); here they are listed separately, as a structure that merges deletes nothing else.

Departures, argued in ``docs/cost-model.md``:

- λ is a function. A node in the first cache costs some 25 ns here, one in memory some 400,
  depending on how many nodes its level has. So λ is a short table over the logarithm of that
  number, and ``H · λ`` a sum over H levels. A table of one entry is the paper's constant.
- An insert or delete visits inner nodes like a search and changes a leaf: ``H_b · λ_b^i`` is
  ``(H_b - 1) · λ_b^s + λ_b^i``, and likewise for deletes. λ_b^i and λ_b^d include splits and joins.
- τ_c is two tables: reading on in a run is cheaper than along a chain of leaves.
- Heights count the leaf and are not rounded: ``1 + log_f(rows / rows per leaf)``.
- A chain has archived subindexes of ``w / (L - 1)`` rows, so that L - 1 of them cover a window. In
  the IB-chain, which the paper measures but does not model, their nodes are immutable.
- T_I, and the active subindex of a chain, are half full on average.
- Descents of several trees for one tuple overlap in the processor, so each is charged as if its
  tree were alone; a single descent competes for the caches with all trees.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from typing import Any

from thetastream.errors import RegistryError, suggest
from thetastream.index.registry import defaults
from thetastream.prices.constants import Constants, Table, at

__all__ = [
    "FILL",
    "Constants",
    "Cost",
    "Tree",
    "best_merge_ratio",
    "best_parameters",
    "immutable_tree",
    "mutable_tree",
    "predict",
    "priced",
]

FILL = 0.66  # how full the nodes of a B⁺-tree are after inserts in random order


@dataclass(frozen=True, slots=True)
class Cost:
    """Nanoseconds per tuple, by step."""

    search: float
    delete: float = 0.0
    insert: float = 0.0
    merge: float = 0.0

    @property
    def total(self) -> float:
        """C_T of Equation 1: the sum of all steps."""
        return self.search + self.delete + self.insert + self.merge

    def as_dict(self) -> dict[str, float]:
        """Plain values, in the order of the steps."""
        return asdict(self)


# --- Trees ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tree:
    """The nodes of each level, from the leaves up, and the fraction of the level that exists.

    Heights are not rounded (H ≈ log_f w, Section 2.2.1), so the topmost level may be fractional.
    With ``copies``, several trees of this shape share their levels.
    """

    levels: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, rows: float, leaf: float, fanout: float, copies: float = 1.0) -> Tree:
        """A tree of ``rows``: ``leaf`` per leaf, ``fanout`` children per inner node."""
        nodes = max(rows / leaf, 1.0)
        levels = [(nodes * copies, 1.0)]
        while nodes >= fanout:
            nodes /= fanout
            levels.append((nodes * copies, 1.0))
        if nodes > 1.0:
            levels.append((copies, math.log(nodes) / math.log(fanout)))
        return cls(tuple(levels))

    @property
    def height(self) -> float:
        """H: nodes from root to leaf.

        >>> Tree.of(32**4, leaf=32, fanout=32).height
        4.0
        """
        return sum(part for _, part in self.levels)

    @property
    def leaves(self) -> float:
        """Nodes of the lowest level."""
        return self.levels[0][0]

    @property
    def inner(self) -> Tree:
        """The tree without its leaves."""
        return Tree(self.levels[1:])

    def visit(self, costs: Table) -> float:
        """``H · λ``: one node per level."""
        return sum(part * at(costs, nodes) for nodes, part in self.levels)

    def change(self, k: Constants, costs: Table) -> float:
        """Descend to a leaf and change it."""
        return self.inner.visit(k.search) + at(costs, self.leaves)


def mutable_tree(rows: float, slots: int, fanout: int, copies: float = 1.0) -> Tree:
    """A B⁺-tree whose nodes are as full as inserts in random order leave them."""
    return Tree.of(rows, max(1.0, FILL * slots), FILL * fanout, copies)


def immutable_tree(rows: float, leaf: int, fanout: int) -> Tree:
    """A tree in breadth-first order: all its nodes are full."""
    return Tree.of(rows, leaf, fanout)


# --- Equations -----------------------------------------------------------------------------------


def _b_plus_tree(k: Constants, w: float, rate: float, *, slots: int, fanout: int) -> Cost:
    """Equation 2 (Section 2.2.1): ``H_b λ_b^s + σ_s τ_c``, ``H_b λ_b^d``, ``H_b λ_b^i``."""
    tree = mutable_tree(w, slots, fanout)
    return Cost(
        search=tree.visit(k.search) + rate * at(k.compare, w),
        delete=tree.change(k, k.delete),
        insert=tree.change(k, k.insert),
    )


def _chained(
    k: Constants,
    w: float,
    rate: float,
    *,
    length: int,
    immutable: bool,
    slots: int,
    fanout: int,
    leaf: int,
    run_fanout: int,
) -> Cost:
    """Equation 3 (Section 2.2.2).

    ``L H_c λ_b^s + σ_s τ_c (1 + 1 / (2 (L - 1)))``, 0, ``H_c λ_b^i``. The term with 1 / (2 (L - 1))
    is for expired rows: as many as the active subindex holds on average. In an IB-chain each row is
    written once more, when its subindex is archived.
    """
    rows = w / (length - 1)
    active = mutable_tree(rows / 2, slots, fanout)
    extra = rate / (2 * (length - 1)) * at(k.compare, w)
    if immutable:
        archived = immutable_tree(rows, leaf, run_fanout).visit(k.immutable)
        read, merge = rate * at(k.compare_run, w) + extra, at(k.merge, rows)
    else:
        archived = mutable_tree(rows, slots, fanout).visit(k.search)
        read, merge = rate * at(k.compare, w) + extra, 0.0
    return Cost(
        search=(length - 1) * archived + active.visit(k.search) + read,
        insert=active.change(k, k.insert),
        merge=merge,
    )


def _round_robin(
    k: Constants,
    w: float,
    rate: float,
    *,
    partitions: int,
    slots: int,
    fanout: int,
) -> Cost:
    """Equation 4 (Section 2.2.3): ``P H_p λ_b^s + σ_s τ_c``, ``H_p λ_b^d``, ``H_p λ_b^i``."""
    alone = mutable_tree(w / partitions, slots, fanout)
    among = mutable_tree(w / partitions, slots, fanout, copies=partitions)
    return Cost(
        search=partitions * alone.visit(k.search) + rate * at(k.compare, w),
        delete=among.change(k, k.delete),
        insert=among.change(k, k.insert),
    )


def _im_tree(
    k: Constants,
    w: float,
    rate: float,
    *,
    merge_ratio: float,
    slots: int,
    fanout: int,
    leaf: int,
    run_fanout: int,
) -> Cost:
    """Equation 5 (Section 3.2.1).

    ``H_S λ_ib^s + H_I λ_b^s + σ_s τ_c (1 + m / 2)``, ``M / (m w)``, ``H_I λ_b^i``.
    """
    stored = immutable_tree(w, leaf, run_fanout)
    young = mutable_tree(merge_ratio * w / 2, slots, fanout)
    read = _read_merged(k, w, rate, merge_ratio)
    return Cost(
        search=stored.visit(k.immutable) + young.visit(k.search) + read,
        insert=young.change(k, k.insert),
        merge=_merge(k, w, merge_ratio),
    )


def _pim_tree(
    k: Constants,
    w: float,
    rate: float,
    *,
    merge_ratio: float,
    depth: int,
    slots: int,
    fanout: int,
    leaf: int,
    run_fanout: int,
) -> Cost:
    """Equation 6 (Section 3.3.2).

    ``H_S λ_ib^s + H'_I λ_b^s + σ_s τ_c (1 + m / 2)``, ``M' / (m w)``, ``D_I λ_ib^s + H'_I λ_b^i``.
    At depth D_I, the lowest inner level unless given, T_S has ``f_ib^D_I`` nodes, and T_I as many
    subindexes. M' = M.
    """
    stored = immutable_tree(w, leaf, run_fanout)
    lowest, deepest = max(0.0, stored.height - 2.0), stored.height - 1.0
    parts = run_fanout ** (lowest if depth < 0 else min(float(depth), deepest))
    above = Tree.of(parts, 1.0, run_fanout).inner  # the D_I levels of T_S that an insert visits
    young = mutable_tree(merge_ratio * w / 2 / parts, slots, fanout, copies=parts)
    read = _read_merged(k, w, rate, merge_ratio)
    return Cost(
        search=stored.visit(k.immutable) + young.visit(k.search) + read,
        insert=above.visit(k.immutable) + young.change(k, k.insert),
        merge=_merge(k, w, merge_ratio),
    )


def _read_merged(k: Constants, w: float, rate: float, merge_ratio: float) -> float:
    """``σ_s τ_c (1 + m / 2)``: T_I holds m / 2 of the window, T_S as much that has expired."""
    return rate * (at(k.compare_run, w) + merge_ratio / 2 * at(k.compare, w))


def _merge(k: Constants, w: float, merge_ratio: float) -> float:
    """``M / (m w)``: a merge reads the w rows of T_S and the m w rows of T_I."""
    return at(k.merge, w) / merge_ratio + at(k.merge_young, w)


def _css_tree(k: Constants, w: float, rate: float, *, leaf: int, fanout: int) -> Cost:
    """T_S alone: every insert rebuilds it. Not in the paper, and not meant for single rows."""
    return Cost(
        search=immutable_tree(w, leaf, fanout).visit(k.immutable) + rate * at(k.compare_run, w),
        merge=w * at(k.merge, w) + at(k.merge_young, w),
    )


def _nested_loop(k: Constants, w: float, rate: float) -> Cost:
    """``w τ``: every row of the window is visited."""
    return Cost(search=w * k.scan)


_EQUATIONS: dict[str, Callable[..., Cost]] = {
    "b+tree": _b_plus_tree,
    "chained": _chained,
    "css-tree": _css_tree,
    "im-tree": _im_tree,
    "nested-loop": _nested_loop,
    "optimistic-tree": _b_plus_tree,  # in one thread, without the cost of versions and latches
    "pim-tree": _pim_tree,
    "round-robin": _round_robin,
}

_LEAST = {
    "length": 2, "partitions": 1, "slots": 2, "fanout": 2, "leaf": 1, "run_fanout": 2, "depth": -1,
    "immutable": 0, "merge_ratio": 2.0**-20,
}  # fmt: skip


def priced() -> list[str]:
    """Names of the structures that have an equation."""
    return list(_EQUATIONS)


def predict(
    structure: str,
    window: float,
    match_rate: float,
    *,
    parameters: Mapping[str, Any] | None = None,
    constants: Constants | None = None,
) -> Cost:
    """The cost of a tuple in an index-based window join in one thread, tuple by tuple.

    ``parameters`` are those of the structure; ``constants`` default to ``Constants.load()``.

    >>> paper = predict("b+tree", 2**20, 2.0, constants=Constants())
    >>> paper.total > predict("pim-tree", 2**20, 2.0, constants=Constants()).total
    True
    """
    equation = _equation(structure)
    if not (1 <= window < math.inf and 0 <= match_rate < math.inf):
        raise RegistryError(
            "window must be at least 1 and match_rate at least 0, both finite; got "
            f"{window} and {match_rate}"
        )
    known = _known(equation)
    for word, value in (parameters or {}).items():
        if word not in known:
            raise RegistryError(
                f"{structure} has no parameter {word!r}; it has {', '.join(known) or 'none'}."
                f"{suggest(word, known)}"
            )
        if not value >= _LEAST[word]:
            raise RegistryError(f"{structure}: {word} must be at least {_LEAST[word]}; got {value}")
    used = Constants.load() if constants is None else constants
    settings = {**defaults(structure), **(parameters or {})}
    return equation(used, float(window), float(match_rate), **settings)


def best_merge_ratio(
    structure: str,
    window: float,
    match_rate: float,
    *,
    parameters: Mapping[str, Any] | None = None,
    constants: Constants | None = None,
) -> float:
    """The m that minimises Equation 5 or 6, among powers of two from 1 down to one row.

    >>> 2**-8 <= best_merge_ratio("pim-tree", 2**20, 2.0, constants=Constants()) <= 1
    True
    """
    if "merge_ratio" not in _known(_equation(structure)):
        able = [name for name, other in _EQUATIONS.items() if "merge_ratio" in _known(other)]
        raise RegistryError(f"{structure} does not merge; {' and '.join(able)} do")
    used = Constants.load() if constants is None else constants

    def total(ratio: float) -> float:
        settings = {**(parameters or {}), "merge_ratio": ratio}
        return predict(structure, window, match_rate, parameters=settings, constants=used).total

    most = min(20, int(math.log2(max(window, 1.0))))
    return min((2.0**-power for power in range(most + 1)), key=total)


def best_parameters(
    structure: str,
    window: float,
    match_rate: float,
    *,
    parameters: Mapping[str, Any] | None = None,
    constants: Constants | None = None,
) -> dict[str, Any]:
    """The merge ratio and depth that minimise Equation 5 or 6, unless they are given.

    Depths are tried down to the lowest level of T_S's inner nodes, which is used unless another is
    clearly better. Empty for a structure that does not merge. Window and match rate are rounded to
    powers of two, as the optimum is flat.

    >>> best_parameters("im-tree", 2**17, 2.0, constants=Constants())
    {'merge_ratio': 0.125}
    >>> best_parameters("b+tree", 2**17, 2.0)
    {}
    """
    if "merge_ratio" not in _known(_equation(structure)):
        return {}
    used = Constants.load() if constants is None else constants
    given = tuple(sorted((parameters or {}).items()))
    return dict(_best(structure, _rounded(window), _rounded(match_rate), given, used))


CLEARLY = 0.97  # of the cost at the usual depth


@lru_cache(maxsize=256)
def _best(
    structure: str,
    window: float,
    rate: float,
    given: tuple[tuple[str, Any], ...],
    constants: Constants,
) -> tuple[tuple[str, Any], ...]:
    fixed, known = dict(given), _known(_equation(structure))
    chosen = [word for word in ("merge_ratio", "depth") if word in known and word not in fixed]

    def total(settings: Mapping[str, Any]) -> float:
        usual = CLEARLY if settings.get("depth") == -1 else 1.0
        cost = predict(structure, window, rate, parameters=settings, constants=constants)
        return usual * cost.total

    tried = [fixed]
    if "depth" in chosen:
        leaves = {**defaults(structure), **fixed}
        height = immutable_tree(window, leaves["leaf"], leaves["run_fanout"]).height
        tried = [{**fixed, "depth": depth} for depth in (-1, *range(int(height)))]
    if "merge_ratio" in chosen:
        ratio = partial(best_merge_ratio, structure, window, rate, constants=constants)
        tried = [{**each, "merge_ratio": ratio(parameters=each)} for each in tried]
    best = min(tried, key=total)
    return tuple((word, best[word]) for word in chosen)


def _rounded(value: float) -> float:
    """The nearest power of two, at least 1."""
    return 2.0 ** round(math.log2(max(value, 1.0)))


def _equation(structure: str) -> Callable[..., Cost]:
    if structure not in _EQUATIONS:
        raise RegistryError(
            f"there is no cost model for {structure!r}; there is one for {', '.join(_EQUATIONS)}."
            f"{suggest(structure, _EQUATIONS)}"
        )
    return _EQUATIONS[structure]


def _known(equation: Callable[..., Cost]) -> list[str]:
    """The parameters of a structure that its equation uses."""
    signature = inspect.signature(equation).parameters.values()
    return [parameter.name for parameter in signature if parameter.kind is parameter.KEYWORD_ONLY]
