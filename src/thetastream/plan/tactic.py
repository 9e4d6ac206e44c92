"""The user's choice: a tactic, the structure under it, and the structure's parameters.

    Tactic("spo-join", background=True, elements=8)      "spo-join(background=true, elements=8)"
    Tactic("panjoin/bi-sort", subwindows=8)              "panjoin/bi-sort(subwindows=8)"
    Tactic("pim-tree", depth=3)                          "pim-tree(depth=3)"

The last names only a structure, which implies a tactic, here ``ibwj``. The tactics are in
``tactics/``, the text form is in ``notation.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from thetastream.errors import OptionError, RegistryError, suggest
from thetastream.index.registry import check_parameters, create, listed, parameters, structure
from thetastream.index.registry import names as structure_names
from thetastream.plan.notation import plain, read, written
from thetastream.plan.tactics.registry import families, family, tactics

if TYPE_CHECKING:
    from thetastream.plan.tactics.family import Family


class Tactic:
    """A tactic by name, with parameters of its structure; tactics of equal text are equal.

    ``name`` is that of a tactic (``ts.tactics()``), optionally followed by a stroke and a structure
    (``ts.index.names()``), or that of a structure alone. Parameters are those of the structure;
    ``thetastream index`` lists them. They are checked when a join is created.

    >>> Tactic("pim-tree", depth=3)
    Tactic('pim-tree(depth=3)')
    >>> Tactic("pim-tree(depth=3)") == Tactic("pim-tree", depth=3)
    True
    """

    def __init__(self, name: str, /, **parameters: Any) -> None:
        if not isinstance(name, str):
            raise RegistryError(
                f"a tactic is text such as 'pim-tree(depth=3)', or ts.Tactic('pim-tree', depth=3); "
                f"got {name!r}"
            )
        named, given = read(name)
        twice = [word for word in parameters if word in given]
        if twice:
            raise RegistryError(
                f"tactic {name!r}: {twice[0]} was given twice, in the text and as an argument; "
                "leave one of them out"
            )
        given |= {word: plain(word, value) for word, value in parameters.items()}
        self._name = named
        self._parameters: Mapping[str, Any] = MappingProxyType(dict(sorted(given.items())))
        self._text = written(named, given)

    @classmethod
    def of(cls, tactic: str | Tactic) -> Tactic:
        """Accept text or a tactic."""
        return tactic if isinstance(tactic, Tactic) else cls(tactic)

    @property
    def name(self) -> str:
        """Tactic and structure, as given."""
        return self._name

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The given parameters."""
        return self._parameters

    def __str__(self) -> str:
        """The text form, from which an equal tactic can be created."""
        return self._text

    def __repr__(self) -> str:
        return f"Tactic({self._text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tactic) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[Any, ...]:
        return Tactic, (self._text,)

    # --- What the name means --------------------------------------------------------------------

    @property
    def family(self) -> Family:
        """The family of layouts and their costs; RegistryError for an unknown name."""
        return self._meaning[0]

    @property
    def index(self) -> str | None:
        """The named structure; None if the tactic chooses."""
        return self._meaning[1]

    @cached_property
    def _meaning(self) -> tuple[Family, str | None]:
        first, _, rest = self._name.partition("/")
        if first in tactics():
            named = family(first)
            if rest and not named.takes_structure:
                able = ", ".join(repr(other.name) for other in families() if other.takes_structure)
                raise RegistryError(
                    f"tactic {self._name!r}: only the tactics {able} take an index, as in "
                    f"'ordered/{rest}'"
                )
            if rest:
                structure(rest)
            return named, rest or None
        if first not in structure_names():
            known = [*tactics(), *structure_names()]
            raise RegistryError(
                f"there is no tactic {self._name!r}; there are {', '.join(tactics())}, and every "
                f"structure: {', '.join(structure_names())}.{suggest(first, known)}"
            )
        kind = structure(self._name)
        return next(each for each in families() if each.suits(kind)), self._name

    @cached_property
    def structures(self) -> tuple[str, ...]:
        """The usable structures: the named one, or all that have the given parameters.

        Raises for parameters that none of them has.
        """
        if self.index is not None:
            return (self.index,)
        offered = self.family.structures()
        if not self._parameters:
            return tuple(offered)
        if not offered:
            raise RegistryError(
                f"tactic {self._text!r}: {self._name} chooses among structures, so it takes no "
                "parameters; name the structure too, as in 'pim-tree(depth=3)'"
            )
        able = [name for name in offered if set(self._parameters) <= set(parameters(name))]
        if not able:
            words = {word for name in offered for word in parameters(name)}
            wrong = next((w for w in self._parameters if w not in words), None)
            what = "all these parameters" if wrong is None else f"a parameter {wrong!r}"
            has = "; ".join(f"{name} has {listed(name)}" for name in offered)
            raise RegistryError(
                f"tactic {self._text!r}: no structure of {self._name!r} has {what}; {has}."
                f"{suggest(wrong or '', words)}"
            )
        return tuple(able)

    def check(self) -> None:
        """Raise for a wrong name, or a parameter's wrong name, type or value."""
        for name in self.structures:
            if self._parameters:
                _try(name, self._parameters)

    def with_workers(self, workers: int) -> Tactic:
        """The same tactic with the structure's parts dealt to threads; 1 changes nothing."""
        if workers == 1:
            return self
        if "workers" in self._parameters:
            raise OptionError(
                f"workers were given twice: workers={workers}, and in tactic={self._text!r}; leave "
                "one of them out"
            )
        if not any("workers" in parameters(name) for name in self.structures):
            raise OptionError(self._no_workers(workers))
        return Tactic(self._text, workers=workers)

    def _no_workers(self, workers: int) -> str:
        if self.index is not None:
            able = [name for name in structure_names() if "workers" in parameters(name)]
            return (
                f"index {self.index!r} has no parts to deal to workers={workers}; use one of "
                f"{', '.join(able)}, or workers=1"
            )
        dealing = [
            f"tactic={each.name!r}"
            for each in families()
            if any("workers" in parameters(name) for name in each.structures())
        ]
        return (
            f"workers={workers} needs {' or '.join(dealing)}, whose parts are dealt to workers; "
            f"got tactic={self._text!r}. Use threads= to share out the matching"
        )


def _try(name: str, given: Mapping[str, Any]) -> None:
    """Create a small index, which raises for wrong values."""
    check_parameters(name, given)
    create(name, capacity=1, columns=2 if structure(name).permuted else 1, **given)
