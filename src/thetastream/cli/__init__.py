"""The command line: ``thetastream demo | join | explain | index | bench``, one verb per file.

A verb reads its arguments, calls the engine through its public names, and prints. Nothing of the
engine imports this package. Heavy modules are imported inside the verbs, so that ``--help`` and a
mistyped option answer at once.
"""

from __future__ import annotations

from thetastream.cli.app import app, main

__all__ = ["app", "main"]
