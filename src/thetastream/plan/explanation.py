"""Explanations: the facts behind a join, as a short text and as a long one.

The facts are one nested dictionary, the same for both texts. The short text has at most ``LINES``
lines: what is joined and how, one line per stored side, partitioning, memory, and what would be
slow, which is never cut off. It leaves out what is empty, the plans that were rejected, and how
costs were computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import wrap
from types import MappingProxyType
from typing import Any

from thetastream.display.facts import as_html, shown

LINES = 25
WIDTH = 160  # characters of a line of the short text
MORE = "more: explain(verbose=True)"
_DETAILS = ("terms", "compared as", "computed by Spark", "constants of the cost model")


class Explanation(str):
    """Readable text that also holds the facts: ``explanation.as_dict()``."""

    _facts: dict[str, Any]

    @classmethod
    def of(
        cls,
        facts: dict[str, Any],
        *,
        verbose: bool = False,
        names: Mapping[str, str] = MappingProxyType({}),
    ) -> Explanation:
        """Render facts as indented text, all of them or the important ones.

        ``names`` are internal names and what the user wrote instead, for the short text.
        """
        lines = list(_lines(facts, 0)) if verbose else brief(facts, names)
        explanation = cls("\n".join(lines))
        explanation._facts = facts
        return explanation

    def as_dict(self) -> dict[str, Any]:
        """The facts behind the text."""
        return self._facts

    @property
    def verbose(self) -> Explanation:
        """The same facts as the long text."""
        return Explanation.of(self._facts, verbose=True)

    def show(self) -> None:
        """Print the text."""
        print(self)

    def _repr_html_(self) -> str:
        pairs = (line.strip().partition(": ") for line in self.splitlines())
        return as_html("explanation", {name.lstrip("- "): value for name, _, value in pairs})

    def __repr__(self) -> str:
        return str(self)


def brief(facts: Mapping[str, Any], names: Mapping[str, str]) -> list[str]:
    """The short text, in lines."""
    lines = [line for name, value in facts.items() for line in _briefly(name, value)]
    for internal, written in sorted(names.items(), key=lambda pair: -len(pair[0])):
        lines = [line.replace(internal, written) for line in lines]
    lines = [line if len(line) <= WIDTH else line[: WIDTH - 1] + "…" for line in lines]
    if len(lines) >= LINES:
        lines = lines[: LINES - 1]
    return [*lines, MORE]


def _briefly(name: str, value: Any) -> Iterator[str]:
    """The lines of one fact; none if it says nothing, or only how something was computed."""
    if name in _DETAILS or value in (None, [], {}, "", "none"):
        return
    if name == "tactic asked for" and value == "auto":
        return
    if name == "plan" and isinstance(value, list):
        yield from (_plan(plan) for plan in value)
    elif name == "slow":
        said = "; ".join(value) if isinstance(value, list) else str(value)
        yield from wrap(f"slow: {said}", WIDTH, subsequent_indent="  ", break_long_words=False)
    elif isinstance(value, Mapping):
        parts = [(key, item) for key, item in value.items() if item not in ([], {}, "", None)]
        yield f"{name}: " + "; ".join(f"{key} {_inline(item)}" for key, item in parts)
    else:
        yield f"{name}: {_inline(value)}"


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_inline(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return shown(value) if isinstance(value, float) else str(value)


def _plan(plan: Mapping[str, Any]) -> str:
    """One stored side: its structure, what it is ordered by, what a row meets and costs."""
    chosen = plan["chosen"]
    parts = [f"{chosen['tactic']}/{chosen['index']}", chosen["first column"]]
    if chosen.get("parameters"):
        parts.append(_inline(chosen["parameters"]))
    if chosen["checked on candidates"]:
        parts.append("then " + " AND ".join(chosen["checked on candidates"]))
    cost = f"{chosen['estimated ns per row']:,.0f} ns per row"
    if "measured ns per row" in plan:
        cost = f"{plan['measured ns per row']:,.0f} ns per row measured"
    parts.append(f"{chosen['candidates per row']:,g} candidates and {cost}")
    parts.append(f"from {plan['estimated from']}")
    return f"{plan['stored side']} rows: " + ", ".join(parts)


def _lines(value: Mapping[str, Any], depth: int) -> Iterator[str]:
    pad = "  " * depth
    for key, item in value.items():
        if isinstance(item, dict) and item:
            yield f"{pad}{key}:"
            yield from _lines(item, depth + 1)
        elif isinstance(item, list) and item and isinstance(item[0], dict):
            yield f"{pad}{key}:"
            for entry in item:
                first, *rest = _lines(entry, depth + 2)
                yield "  " * (depth + 1) + "- " + first.lstrip()
                yield from rest
        elif isinstance(item, list | tuple):
            yield f"{pad}{key}: {', '.join(map(str, item)) or 'none'}"
        else:
            yield f"{pad}{key}: {item}"
