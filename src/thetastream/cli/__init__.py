"""The command line: ``thetastream demo | join | relation | explain | index | bench``.

``app`` is the command. The verbs: ``demo`` (``demo_spark``, ``demo_embedded``), ``join``,
``explain``, ``index``, ``bench``, and ``relation`` in a folder of its own. What they share:
``files`` and ``feed`` read streams, ``options`` are those of several verbs, ``windows`` makes a
window of them, ``progress`` and ``tables`` print.

A verb reads its arguments, calls the engine through its public names, and prints. Nothing of the
engine imports this package. Heavy modules are imported inside the verbs, so that ``--help`` and a
mistyped option answer at once.
"""

from __future__ import annotations

from thetastream.cli.app import app, main

__all__ = ["app", "main"]
