"""The list of structures: names, and where the class behind each is found.

Importing it loads no structure; a class is imported when its name is first asked for. A line in
``_STRUCTURES`` is what makes a structure tested and benchmarked. ``register`` adds a class of your
own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, cast

from thetastream.errors import RegistryError, suggest

if TYPE_CHECKING:
    from thetastream.index.base import Index

__all__ = [
    "check_parameters", "checked", "create", "defaults", "names", "register", "structure",
]  # fmt: skip

S = TypeVar("S", bound="type[Index]")

_STRUCTURES: dict[str, str | type[Index]] = {
    "b+tree": "trees.bplus_tree:BPlusTree",
    "b-tree": "ordered.b_tree:BTree",
    "bi-sort": "subwindows.bi_sort:BiSort",
    "bi-sort-opencl": "subwindows.bi_sort_opencl:BiSortOpenCL",
    "burst-trie": "ordered.burst_trie:BurstTrie",
    "chained": "trees.chained:Chained",
    "csb+tree": "ordered.csb_tree:CsbTree",
    "css-tree": "trees.css_tree:CssTree",
    "im-tree": "trees.im_tree:ImTree",
    "incremental": "slotted.incremental:Incremental",
    "llat": "subwindows.llat:LlatIndex",
    "nested-loop": "runs.nested_loop:NestedLoop",
    "optimistic-tree": "trees.optimistic_tree:OptimisticTree",
    "per-term": "permuted.per_term:PerTerm",
    "pim-tree": "trees.pim_tree:PimTree",
    "po-join": "permuted.po_join:PoJoin",
    "ptwi": "slotted.ptwi:Ptwi",
    "radix-trie": "ordered.radix_trie:RadixTrie",
    "rap-table": "subwindows.rap_table:RapTable",
    "round-robin": "trees.round_robin:RoundRobin",
    "sorted-runs": "runs.sorted_runs:SortedRuns",
    "split-join": "runs.split_join:SplitJoin",
    "spo-join": "permuted.spo_join:SpoJoin",
    "subwindows": "subwindows.subwindows:Subwindows",
    "wib-tree": "subwindows.wib_tree:WibTree",
    "zoned-runs": "runs.zoned_runs:ZonedRuns",
}


def register(cls: S) -> S:
    """Add a structure of your own to the registry, under its ``name``; a class decorator."""
    assert cls.name and cls.name not in _STRUCTURES, cls
    _STRUCTURES[cls.name] = cls
    return cls


def names() -> list[str]:
    """Names of all registered structures."""
    return sorted(_STRUCTURES)


def _load(name: str) -> type[Index]:
    """The class registered under a plain name, imported when it is first asked for."""
    found = _STRUCTURES[name]
    if isinstance(found, str):
        module, _, cls = found.partition(":")
        found = cast("type[Index]", getattr(import_module(f"thetastream.index.{module}"), cls))
        _STRUCTURES[name] = found
    return found


def structure(name: str) -> type[Index]:
    """The class registered under a name; that of ``ptwi`` for ``ptwi/b+tree``.

    What follows the stroke is the structure inside (parameter ``inner``), which is checked, too.
    """
    outer, stroke, inner = name.partition("/")
    if outer not in _STRUCTURES:
        raise RegistryError(
            f"there is no index {outer!r}; there are {', '.join(names())}.{suggest(outer, names())}"
        )
    found = _load(outer)
    if stroke:
        if not _holds(found):
            able = [known for known in names() if _holds(_load(known))]
            raise RegistryError(
                f"index {outer!r} holds no other structure, so {name!r} means nothing; those that "
                f"do are {', '.join(able)}, as in '{able[0]}/{outer}'"
            )
        structure(inner)
    return found


def _holds(found: type[Index]) -> bool:
    """Whether a structure is made of others."""
    return "inner" in inspect.signature(found).parameters


def create(name: str, capacity: int = 1 << 20, **parameters: Any) -> Index:
    """Create an index by name.

    ``capacity`` is the expected number of rows in the window: a hint, not a limit. Structures that
    hold others take the name of one after a stroke: ``per-term/css-tree`` is ``per-term`` with
    ``inner="css-tree"``.

    >>> create("sorted-runs", capacity=1 << 20).parameters["capacity"]
    1048576
    >>> create("per-term/css-tree").parameters["inner"]
    'css-tree'
    """
    make: Callable[..., Index] = structure(name)
    check_parameters(name, parameters)
    _, stroke, inner = name.partition("/")
    return make(capacity=capacity, **({"inner": inner} if stroke else {}), **parameters)


def checked(name: str, **least: tuple[float, float]) -> None:
    """Raise for settings below their least value: ``slots=(value, least)``."""
    for word, (value, bound) in least.items():
        if value < bound:
            raise RegistryError(f"{name}: {word} must be at least {bound}; got {value}")


def defaults(name: str) -> dict[str, Any]:
    """The parameters of a structure besides capacity and columns, as they are unless given."""
    known = inspect.signature(structure(name)).parameters
    found = {w: p.default for w, p in known.items() if w not in ("capacity", "columns")}
    _, stroke, inner = name.partition("/")
    return {**found, "inner": inner} if stroke else found


def check_parameters(name: str, parameters: Iterable[str]) -> None:
    """Raise for words that are no parameters of a structure."""
    known = inspect.signature(structure(name)).parameters
    for word in parameters:
        if word == "inner" and "/" in name:
            raise RegistryError(
                f"the structure inside was given twice: by the name {name!r} and by inner=; "
                "give it once"
            )
        if word not in known:
            raise RegistryError(
                f"index {name!r} has no parameter {word!r}; it has {', '.join(known)}."
                f"{suggest(word, known)}"
            )
