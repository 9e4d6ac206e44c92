"""The command line: ``thetastream demo | join | relation | explain | index | bench``.

``app`` is the command. The verbs: ``demo`` (``demo_spark``, ``demo_embedded``), ``join``,
``explain``, ``index``, ``bench``, and the folder ``relation``. Shared by the verbs: ``files`` and
``feed`` read streams, ``options`` declares common options, ``windows`` builds a window from them,
``progress`` and ``tables`` print.

A verb reads its arguments, calls the engine through its public names, and prints. The engine never
imports this package. Verbs import heavy modules themselves, so that ``--help`` and a mistyped
option answer at once.
"""

from __future__ import annotations

from thetastream.cli.app import app, main

__all__ = ["app", "main"]
