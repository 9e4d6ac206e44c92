"""Windows at work: who waits, who meets whom, who leaves. One module per kind of window.

``base`` is the protocol, ``count`` serves count windows (by arrival, by rank, of a stream with
itself), ``time`` event time, ``session`` sessions, ``unbounded`` joins without a window. A window
names its class (``Window.lifetime``), which is loaded on first use. The room imports ``stream``,
``query`` and ``outside`` of the engine, and what stands below it.
"""

from __future__ import annotations

from importlib import import_module

from thetastream.engine.lifetime.base import Facts, Lifetime

__all__ = ["Facts", "Lifetime", "lifetime_of"]


def lifetime_of(facts: Facts) -> Lifetime:
    """The lifetime of a join's window."""
    module, _, name = facts.query.window.lifetime.partition(":")
    make = getattr(import_module(f"{__name__}.{module}"), name)
    made: Lifetime = make(facts)
    return made
