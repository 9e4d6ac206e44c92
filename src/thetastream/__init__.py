"""thetastream: join two streams on any comparison, exactly and fast.

>>> import thetastream as ts
>>> join = ts.StreamJoin("abs(l.price - r.price) <= 0.05", window=ts.CountWindow(1 << 20))

Names are loaded on first use: importing the package takes milliseconds, and a Spark worker or
``--help`` loads no compiler.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thetastream import errors as errors
    from thetastream import index as index
    from thetastream.condition import functions as functions
    from thetastream.condition.expression import left as left
    from thetastream.condition.expression import right as right
    from thetastream.condition.predicate import Predicate as Predicate
    from thetastream.duration import Interval as Interval
    from thetastream.engine.costs import explain as explain
    from thetastream.errors import ThetastreamError as ThetastreamError
    from thetastream.lookup.window_index import WindowIndex as WindowIndex
    from thetastream.metrics import Metrics as Metrics
    from thetastream.plan import cost as cost
    from thetastream.plan.explanation import Explanation as Explanation
    from thetastream.plan.tactic import Tactic as Tactic
    from thetastream.plan.tactics.registry import tactics as tactics
    from thetastream.relation.join.join import RelationJoin as RelationJoin
    from thetastream.relation.store import Relation as Relation
    from thetastream.side import How as How
    from thetastream.side import Side as Side
    from thetastream.stream_join import StreamJoin as StreamJoin
    from thetastream.tables.join import join as join
    from thetastream.tables.join import join_iter as join_iter
    from thetastream.truth import aggregate_oracle as aggregate_oracle
    from thetastream.truth import oracle as oracle
    from thetastream.tuplewise import ibwj as ibwj
    from thetastream.tuplewise import parallel as parallel
    from thetastream.tuplewise.ibwj import IndexJoin as IndexJoin
    from thetastream.tuplewise.parallel import ParallelJoin as ParallelJoin
    from thetastream.window import CountWindow as CountWindow
    from thetastream.window import SessionWindow as SessionWindow
    from thetastream.window import TimeWindow as TimeWindow
    from thetastream.window import Unbounded as Unbounded

__version__ = "0.1.0"

_MODULES = {
    "CountWindow": "window",
    "Explanation": "plan.explanation",
    "How": "side",
    "IndexJoin": "tuplewise.ibwj",
    "Interval": "duration",
    "Metrics": "metrics",
    "ParallelJoin": "tuplewise.parallel",
    "Predicate": "condition.predicate",
    "Relation": "relation.store",
    "RelationJoin": "relation.join.join",
    "SessionWindow": "window",
    "Side": "side",
    "StreamJoin": "stream_join",
    "Tactic": "plan.tactic",
    "ThetastreamError": "errors",
    "TimeWindow": "window",
    "Unbounded": "window",
    "WindowIndex": "lookup.window_index",
    "explain": "engine.costs",
    "join": "tables.join",
    "join_iter": "tables.join",
    "left": "condition.expression",
    "right": "condition.expression",
    "tactics": "plan.tactics.registry",
}

__all__ = sorted([*_MODULES, "errors", "index"])


_ADDRESSES = {
    "aggregate_oracle": "truth.aggregate_oracle",
    "cost": "plan.cost",
    "functions": "condition.functions",
    "ibwj": "tuplewise.ibwj",
    "oracle": "truth.oracle",
    "pandas": "tables.pandas_accessor",
    "parallel": "tuplewise.parallel",
    "polars": "tables.polars_namespace",
}
"""Modules with a short public address, and the rooms they live in."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = getattr(import_module(f"thetastream.{_MODULES[name]}"), name)
    elif name in __all__ or name in _ADDRESSES:
        value = import_module(f"thetastream.{name}")
    else:
        raise AttributeError(f"module 'thetastream' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_ADDRESSES})


class _Addresses(MetaPathFinder, Loader):
    """Makes ``import thetastream.oracle`` find the module in its room: the same one, not a copy."""

    def find_spec(
        self, fullname: str, path: object = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, name = fullname.rpartition(".")
        known = package == "thetastream" and name in _ADDRESSES
        return spec_from_loader(fullname, self) if known else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(f"thetastream.{_ADDRESSES[spec.name.rpartition('.')[2]]}")
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None  # the spec of the address, set by the import system
        module.__spec__ = module.__spec__.loader_state


sys.meta_path.append(_Addresses())
