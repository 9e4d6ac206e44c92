"""What is no longer needed is freed off the hot path: one thread per process, a short queue.

Giving large arrays back to the system takes milliseconds, and whoever drops them has rows to take.
So ``discard`` only hands a reference over, and the thread lets go of it (Ordered Indexing, Section
3.3.2: "bulk deletion can be done in a lazy manner in a background process"). When the queue is full
the caller frees by itself, so what waits to be freed is bounded.

Whoever still reads what was discarded, such as an open answer, holds a reference of its own:
nothing is freed under a reader. The thread begins with the first thing to free, anew in a forked
process, and ends with the process, once the queue is empty.
"""

from __future__ import annotations

import atexit
import os
from queue import Full, Queue
from threading import Lock, Thread

__all__ = ["discard", "settle"]

_WAITING = 64  # things that may wait to be freed
_PATIENCE = 5.0  # seconds that the end of the process waits for the thread


class _Disposal:
    """A queue and the thread that empties it; the thread begins when it is needed."""

    def __init__(self) -> None:
        self._queue: Queue[object] = Queue(_WAITING)
        self._lock = Lock()
        self._thread: Thread | None = None

    def take(self, unwanted: object) -> bool:
        """Queue a thing, O(1); False without room."""
        with self._lock:
            if self._thread is None:
                self._thread = Thread(target=self._run, name="disposal", daemon=True)
                self._thread.start()
        try:
            self._queue.put_nowait(unwanted)
        except Full:
            return False
        return True

    def settle(self) -> None:
        """Wait until all that was queued is freed."""
        if self._thread is not None:
            self._queue.join()

    def end(self) -> None:
        """Free what is queued, and end the thread."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(None)
            thread.join(_PATIENCE)

    def _run(self) -> None:
        while (unwanted := self._queue.get()) is not None:
            del unwanted  # the last reference, unless somebody reads it
            self._queue.task_done()
        self._queue.task_done()


_disposal = _Disposal()


def discard(unwanted: object) -> None:
    """Have the memory of a thing freed in the background; the caller forgets it. O(1)."""
    _disposal.take(unwanted)


def settle() -> None:
    """Wait until all that was discarded is freed, but for what is still read."""
    _disposal.settle()


def _begin_anew() -> None:
    """A forked process has no such thread, and its copy of the queue may be locked."""
    global _disposal
    _disposal = _Disposal()


atexit.register(lambda: _disposal.end())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
