"""How long rows stay: the windows of a join, one kind per module.

``count`` keeps the last rows of a side, ``time`` uses event time, ``session`` joins rows between
two pauses, ``unbounded`` keeps everything. ``base`` is the interface of all windows, ``lengths``
parses sizes and durations. A window is a value; its behaviour while a join runs is its *lifetime*
(``engine/lifetime``). Imports ``errors``, ``side`` and ``duration`` only.
"""

from thetastream.window.base import EventTime, Window, check_window
from thetastream.window.count import CountWindow
from thetastream.window.lengths import saturating_add, saturating_multiply
from thetastream.window.session import BoundSession, SessionWindow
from thetastream.window.time import BoundTime, TimeWindow
from thetastream.window.unbounded import Unbounded

__all__ = [
    "BoundSession",
    "BoundTime",
    "CountWindow",
    "EventTime",
    "SessionWindow",
    "TimeWindow",
    "Unbounded",
    "Window",
    "check_window",
    "saturating_add",
    "saturating_multiply",
]
