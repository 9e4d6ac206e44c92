"""thetastream: join two streams on any comparison, exactly and fast.

>>> import thetastream as ts
>>> join = ts.StreamJoin("abs(l.price - r.price) <= 0.05", window=ts.CountWindow(1 << 20))

Names are loaded when they are first used: importing the package costs milliseconds, and a Spark
worker or ``--help`` loads no compiler.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thetastream import errors, index
    from thetastream.condition.expression import left, right
    from thetastream.condition.predicate import Predicate
    from thetastream.duration import Interval
    from thetastream.errors import ThetastreamError
    from thetastream.join import StreamJoin
    from thetastream.lookup.window_index import WindowIndex
    from thetastream.metrics import Metrics
    from thetastream.plan.choice import Explanation
    from thetastream.plan.tactic import tactics
    from thetastream.relation.join.join import RelationJoin
    from thetastream.relation.store import Relation
    from thetastream.side import How, Side
    from thetastream.window import CountWindow, TimeWindow

__version__ = "0.1.0"

__all__ = [
    "CountWindow",
    "Explanation",
    "How",
    "Interval",
    "Metrics",
    "Predicate",
    "Relation",
    "RelationJoin",
    "Side",
    "StreamJoin",
    "ThetastreamError",
    "TimeWindow",
    "WindowIndex",
    "errors",
    "index",
    "left",
    "right",
    "tactics",
]

_MODULES = {
    "CountWindow": "window",
    "Explanation": "plan.choice",
    "How": "side",
    "Interval": "duration",
    "Metrics": "metrics",
    "Predicate": "condition.predicate",
    "Relation": "relation.store",
    "RelationJoin": "relation.join.join",
    "Side": "side",
    "StreamJoin": "join",
    "ThetastreamError": "errors",
    "TimeWindow": "window",
    "WindowIndex": "lookup.window_index",
    "left": "condition.expression",
    "right": "condition.expression",
    "tactics": "plan.tactic",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = getattr(import_module(f"thetastream.{_MODULES[name]}"), name)
    elif name in __all__:
        value = import_module(f"thetastream.{name}")
    else:
        raise AttributeError(f"module 'thetastream' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
