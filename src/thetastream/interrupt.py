"""Ctrl-C without loss: delay an interrupt until the state is consistent."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import threading
from types import FrameType

# What ``signal.signal`` and ``signal.getsignal`` call; those wrap numbers into enums, at ten times
# the cost, and this runs in every push.
_set, _get, _INTERRUPT = _signal.signal, _signal.getsignal, _signal.SIGINT


class uninterrupted:
    """Hold back SIGINT while the body runs, then deliver it. Only the main thread gets signals."""

    __slots__ = ("_caught", "_handler")

    def __enter__(self) -> None:
        self._caught: list[tuple[int, FrameType | None]] = []
        self._handler = None
        if threading.current_thread() is threading.main_thread():
            handler = _get(_INTERRUPT)
            if callable(handler):
                self._handler = handler
                _set(_INTERRUPT, self._catch)

    def _catch(self, number: int, frame: FrameType | None) -> None:
        self._caught.append((number, frame))

    def __exit__(self, *failure: object) -> None:
        if self._handler is not None:
            _set(_INTERRUPT, self._handler)
            if self._caught and failure[0] is None:
                self._handler(*self._caught[0])
