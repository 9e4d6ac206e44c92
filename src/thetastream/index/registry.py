"""The list of structures: names, and where the class behind each is found.

Importing it loads no structure; a class is imported when its name is first asked for. A line in
``_STRUCTURES`` is what makes a structure tested and benchmarked. ``register`` adds a class of your
own.
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
        """Whether a value has the type; types that are not known here fit everything."""
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

    >>> [str(found) for found in parameters("b+tree").values()]
    ['slots: int = 32', 'fanout: int = 32']
    """
    found = dict(_signature(structure(name)))
    _, stroke, inner = name.partition("/")
    return {**found, "inner": replace(found["inner"], default=inner)} if stroke else found


@cache
def _signature(found: type[Index]) -> Mapping[str, Parameter]:
    return {
        word: Parameter(word, _kind(known.annotation), known.default)
        for word, known in inspect.signature(found).parameters.items()
        if word not in ("capacity", "columns")
    }


def _kind(annotation: Any) -> str:
    if annotation is inspect.Parameter.empty:
        return "any"
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def defaults(name: str) -> dict[str, Any]:
    """The parameters of a structure besides capacity and columns, as they are unless given."""
    return {word: found.default for word, found in parameters(name).items()}


def listed(name: str) -> str:
    """All parameters of a structure, with types and defaults, on one line.

    >>> listed("split-join")
    'workers: int = 2'
    """
    return ", ".join(map(str, parameters(name).values())) or "none"


def check_parameters(name: str, given: Mapping[str, Any]) -> None:
    """Raise for words that are no parameters of a structure, and for values of another type.

    Values out of range are the business of the structure, which knows its limits.
    """
    known = parameters(name)
    for word, value in given.items():
        if word == "inner" and "/" in name:
            raise RegistryError(
                f"the structure inside was given twice: by the name {name!r} and by inner=; "
                "give it once"
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
    """The error for a parameter's value that a structure cannot use; it lists all parameters."""
    registered = name.partition("/")[0] in _STRUCTURES
    known = f" Parameters of {name}: {listed(name)}" if registered else ""
    return RegistryError(f"{name}: {message}.{hint}{known}")
