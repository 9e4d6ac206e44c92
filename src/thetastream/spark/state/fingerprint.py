"""What belongs to a join and must not change between two starts from one checkpoint.

A fingerprint is a dictionary of texts that a user can read. Two of them are compared by what they
mean: the condition without its spelling (blanks, brackets, upper and lower case, quotes), and the
number of partitions with their group keys.

    abs(l.limit - r.price) <= 0.01      the same as      ABS(l.limit-r.price)<=0.01
    abs(l.limit - r.price) <= 0.01      another than     abs(l.limit - r.price) < 0.01
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from sqlglot import exp

from thetastream.condition.sql import SIDES, parse_tree
from thetastream.errors import PredicateError, StateError

PREDICATE, PARTITIONS = "predicate", "partitions"


def written_keys(keys: tuple[int, ...]) -> str:
    """The partitions of a join, for its fingerprint."""
    return f"{len(keys)}, with the group keys {', '.join(map(str, keys))}"


def keys_in(fingerprint: Mapping[str, str]) -> tuple[int, ...]:
    """The group keys that a fingerprint names."""
    _, *keys = re.findall(r"\d+", fingerprint[PARTITIONS])
    return tuple(map(int, keys))


def differences(was: Mapping[str, str], now: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """What differs in meaning, by name: what it was and what it is."""
    return {
        name: (was.get(name, "nothing"), now.get(name, "nothing"))
        for name in dict.fromkeys([*was, *now])
        if was.get(name) != now.get(name) and not _alike(name, was, now)
    }


def _alike(name: str, was: Mapping[str, str], now: Mapping[str, str]) -> bool:
    if name not in was or name not in now:
        return False
    if name == PREDICATE:
        return unspelled(was[name]) == unspelled(now[name])
    return name == PARTITIONS and keys_in(was) == keys_in(now)


def refuse_another(was: Mapping[str, str], now: Mapping[str, str], where: str) -> None:
    """StateError for the state of another join; it says what differs."""
    changed = differences(was, now)
    if not changed:
        return
    lines = [f"  {name}\n    was  {old}\n    is   {new}" for name, (old, new) in changed.items()]
    advice = "Restore what it was, or start with a new checkpoint location."
    if PARTITIONS in changed:
        advice += (
            f" For the partitions, pass partitions={len(keys_in(was))}, or checkpoint= with the "
            "checkpoint location: theta_join then takes them from there."
        )
    raise StateError(
        f"{where}: the checkpoint holds the state of another join; it differs in\n"
        + "\n".join(lines)
        + f"\n{advice}"
    )


@lru_cache(maxsize=64)
def unspelled(text: str) -> str:
    """A condition without its spelling; as it stands if it cannot be parsed."""
    try:
        tree = parse_tree(text)
    except PredicateError:
        return text
    tree, before = tree.transform(_unspell), None
    while tree != before:  # what was in brackets is not visited again
        before, tree = tree, tree.transform(_unbracket)
    return str(tree.sql(dialect="spark"))


def _unspell(node: Any) -> Any:
    if isinstance(node, exp.Column) and node.table.lower() in SIDES:
        node.set("table", exp.to_identifier(SIDES[node.table.lower()].alias))
    if isinstance(node, exp.Identifier):
        return exp.to_identifier(node.name.lower(), quoted=True)
    if isinstance(node, exp.Anonymous):
        node.set("this", node.name.upper())
    return node


def _unbracket(node: Any) -> Any:
    if not isinstance(node, exp.Paren):
        return node
    inner = node.this
    if isinstance(inner, exp.Paren | exp.Column | exp.Literal):
        return inner
    return inner if _is_free(node.parent) and not isinstance(inner, exp.Or) else node


def _is_free(parent: Any) -> bool:
    """Whether brackets change nothing below this node: at the top, and in a conjunction."""
    return parent is None or isinstance(parent, exp.And)
