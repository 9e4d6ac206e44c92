"""The list of structures: their names and where to import the class behind each.

Importing this module loads no structure; a class is imported when its name is first used. A line in
``_STRUCTURES`` makes a structure tested and benchmarked. ``register`` adds your own class.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeVar, cast

from thetastream.errors import RegistryError, suggest

if TYPE_CHECKING:
    from thetastream.index.base import Index


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
    """Add your own structure to the registry, under its ``name``; a class decorator."""
    assert cls.name and cls.name not in _STRUCTURES, cls
    _STRUCTURES[cls.name] = cls
    return cls


def names() -> list[str]:
    """Names of all registered structures."""
    return sorted(_STRUCTURES)


def _load(name: str) -> type[Index]:
    """The class registered under a plain name, imported on first use."""
    entry = _STRUCTURES[name]
    if isinstance(entry, str):
        module, _, cls = entry.partition(":")
        entry = cast("type[Index]", getattr(import_module(f"thetastream.index.{module}"), cls))
        _STRUCTURES[name] = entry
    return entry


def structure(name: str) -> type[Index]:
    """The class registered under a name; that of ``ptwi`` for ``ptwi/b+tree``.

    The part after the stroke is the structure inside (parameter ``inner``); it is checked, too.
    """
    outer, stroke, inner = name.partition("/")
    if outer not in _STRUCTURES:
        raise RegistryError(
            f"there is no index {outer!r}; there are {', '.join(names())}.{suggest(outer, names())}"
        )
    cls = _load(outer)
    if stroke:
        if "inner" not in signature(cls):
            able = [known for known in names() if "inner" in signature(_load(known))]
            raise RegistryError(
                f"index {outer!r} holds no other structure, so {name!r} means nothing; those that "
                f"do are {', '.join(able)}, as in '{able[0]}/{outer}'"
            )
        structure(inner)
    return cls


def create(name: str, capacity: int = 1 << 20, **parameters: Any) -> Index:
    """Create an index by name.

    ``capacity`` is the expected number of rows in the window: a hint, not a limit. ``columns`` is
    the number of key columns. Structures that hold others take the name of one after a stroke:
    ``per-term/css-tree`` is ``per-term`` with ``inner="css-tree"``.

    >>> create("sorted-runs", capacity=1 << 20).parameters["capacity"]
    1048576
    >>> create("per-term/css-tree").parameters["inner"]
    'css-tree'
    """
    make: Callable[..., Index] = structure(name)
    check_parameters(name, {w: value for w, value in parameters.items() if w != "columns"})
    _, stroke, inner = name.partition("/")
    return make(capacity=capacity, **({"inner": inner} if stroke else {}), **parameters)


# --- Parameters ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Parameter:
    """A setting of a structure: its name, its type as it is written in code, and its default."""

    name: str
    kind: str
    default: Any

    def fits(self, value: Any) -> bool:
        """Whether a value has the type; a type that is not listed here accepts everything."""
        return any(_fits(kind, value) for kind in self.kind.split(" | "))

    def __str__(self) -> str:
        """Like ``depth: int = -1``."""
        return f"{self.name}: {self.kind} = {self.default!r}"


def _fits(kind: str, value: Any) -> bool:
    outer, _, items = kind.partition("[")
    if outer == "tuple":
        whole = isinstance(value, tuple | list) and all(map(_is_whole, value))
        return whole and len(value) == items.count(",") + 1
    return outer not in _FITS or _FITS[outer](value)


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


_FITS: dict[str, Callable[[Any], bool]] = {
    "int": _is_whole,
    "float": _is_number,
    "bool": lambda value: isinstance(value, bool),
    "str": lambda value: isinstance(value, str),
    "None": lambda value: value is None,
    "Mapping": lambda value: isinstance(value, Mapping),
}


def parameters(name: str) -> dict[str, Parameter]:
    """The parameters of a structure besides capacity and columns.

    >>> [str(parameter) for parameter in parameters("b+tree").values()]
    ['slots: int = 32', 'fanout: int = 32']
    """
    known = dict(signature(structure(name)))
    _, stroke, inner = name.partition("/")
    return {**known, "inner": replace(known["inner"], default=inner)} if stroke else known


@cache
def signature(cls: type[Index]) -> Mapping[str, Parameter]:
    """The parameters of a class besides capacity and columns."""
    return {
        word: Parameter(word, _kind(known.annotation), known.default)
        for word, known in inspect.signature(cls).parameters.items()
        if word not in ("capacity", "columns")
    }


def _kind(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty:
        return "any"
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def defaults(name: str) -> dict[str, Any]:
    """The defaults of a structure's parameters besides capacity and columns."""
    return {word: parameter.default for word, parameter in parameters(name).items()}


def listed(name: str) -> str:
    """All parameters of a structure, with types and defaults, on one line.

    >>> listed("split-join")
    'workers: int = 2'
    """
    return ", ".join(map(str, parameters(name).values())) or "none"


def check_parameters(name: str, given: Mapping[str, Any]) -> None:
    """Raise for unknown parameters of a structure and for values of the wrong type.

    The structure itself checks ranges, as it knows its limits.
    """
    known = parameters(name)
    for word, value in given.items():
        if word == "inner" and "/" in name:
            raise RegistryError(
                f"the structure inside was given twice: by the name {name!r} and by inner=; "
                "use one of them"
            )
        if word not in known:
            raise RegistryError(
                f"index {name!r} has no parameter {word!r}; it has {listed(name)}."
                f"{suggest(word, known)}"
            )
        if not known[word].fits(value):
            kind, came = known[word].kind, type(value).__name__
            raise refused(name, f"{word} must be of type {kind}; got {value!r} ({came})")


def checked(name: str, **least: tuple[float, float]) -> None:
    """Raise for settings below their least value: ``slots=(value, least)``."""
    for word, (value, bound) in least.items():
        if not value >= bound:
            raise refused(name, f"{word} must be at least {bound}; got {value}")


def refused(name: str, message: str, hint: str = "") -> RegistryError:
    """The error for a parameter value that a structure cannot use; it lists all parameters."""
    registered = name.partition("/")[0] in _STRUCTURES
    known = f" Parameters of {name}: {listed(name)}" if registered else ""
    return RegistryError(f"{name}: {message}.{hint}{known}")
