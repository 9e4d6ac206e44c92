"""thetastream: join two streams on any comparison, exactly and fast.

>>> import thetastream as ts
>>> join = ts.StreamJoin("abs(l.price - r.price) <= 0.05", window=ts.CountWindow(1 << 20))
"""

from __future__ import annotations

from thetastream import errors, index
from thetastream.duration import Interval
from thetastream.errors import ThetastreamError
from thetastream.expression import left, right
from thetastream.join import StreamJoin
from thetastream.metrics import Metrics
from thetastream.plan import Explanation
from thetastream.predicate import Predicate
from thetastream.side import How, Side
from thetastream.tactic import tactics
from thetastream.window import CountWindow, TimeWindow

__version__ = "0.1.0"

__all__ = [
    "CountWindow",
    "Explanation",
    "How",
    "Interval",
    "Metrics",
    "Predicate",
    "Side",
    "StreamJoin",
    "ThetastreamError",
    "TimeWindow",
    "errors",
    "index",
    "left",
    "right",
    "tactics",
]
