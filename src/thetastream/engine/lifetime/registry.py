"""From a window to its lifetime: the class that the window names, loaded on first use."""

from __future__ import annotations

from importlib import import_module

from thetastream.engine.lifetime.base import Lifetime, Setting


def lifetime_of(facts: Setting) -> Lifetime:
    """The lifetime of a join's window."""
    module, _, name = facts.query.window.lifetime.partition(":")
    make = getattr(import_module(f"thetastream.engine.lifetime.{module}"), name)
    lifetime: Lifetime = make(facts)
    return lifetime
