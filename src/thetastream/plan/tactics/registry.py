"""The list of tactics: their names and classes.

Importing it loads no tactic; a class is imported on first use of its name. A line in ``_TACTICS``
makes a tactic known to users, to ``auto`` and to the tests.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from thetastream.plan.tactics.family import Family


_TACTICS = {
    "auto": "auto:AutoFamily",
    "ordered": "ordered:OrderedFamily",
    "ibwj": "ibwj:IbwjFamily",
    "panjoin": "panjoin:PanJoinFamily",
    "spo-join": "spo_join:SpoJoinFamily",
    "hash": "hash:HashFamily",
    "cells": "cells:CellsFamily",
    "nested-loop": "nested_loop:NestedLoopFamily",
}


def tactics() -> list[str]:
    """Names of all registered tactics."""
    return list(_TACTICS)


@cache
def family(name: str) -> Family:
    """The tactic registered under a name."""
    module, _, cls = _TACTICS[name].partition(":")
    return cast("Family", getattr(import_module(f"thetastream.plan.tactics.{module}"), cls)())


def families() -> list[Family]:
    """All tactics, in the order of the list."""
    return [family(name) for name in _TACTICS]
