"""What is no longer needed is freed off the hot path: one thread per process, a short queue.

Giving large arrays back to the system takes milliseconds, and whoever drops them has rows to take.
So ``discard`` only hands a list over, and the thread empties it (Ordered Indexing, Section 3.3.2:
"bulk deletion can be done in a lazy manner in a background process"). When the queue is full the
list is emptied at once, so what waits to be freed is bounded.

The thread looks into the queue by itself, ten times a second. Were it woken, it would often take
the place of the one that wakes it: on a busy machine that cost 3 ms at the median, and handing over
costs 1 µs.

Whoever still reads what was discarded, such as an open answer, holds a reference of its own:
nothing is freed under a reader. The thread begins with the first index that wants it, in a forked
process with the first one made there, and ends with the process, once the queue is empty. Where
there is none, lists are emptied at once.
"""

from __future__ import annotations

import atexit
import os
from collections import deque
from threading import Condition, Thread
from typing import Any

_WAITING = 64  # lists that may wait to be emptied
_PAUSE = 0.1  # seconds between two looks into the queue
_PATIENCE = 5.0  # seconds that the end of the process waits for the thread


class _Disposal:
    """A queue and the thread that empties it; the thread begins when it is needed."""

    def __init__(self) -> None:
        self._queue: deque[list[Any]] = deque()
        self._signal = Condition()
        self._thread: Thread | None = None
        self._ending = False
        self._asked = self._done = 0  # how often it was asked to empty the queue at once

    def begin(self) -> None:
        """Have the thread run, if it does not yet."""
        with self._signal:
            if self._thread is None and not self._ending:
                self._thread = Thread(target=self._run, name="disposal", daemon=True)
                self._thread.start()

    def take(self, unwanted: list[Any]) -> None:
        """Queue a list, O(1); without room, or a thread, it is emptied at once."""
        if len(self._queue) < _WAITING and self._thread is not None:
            self._queue.append(unwanted)
        else:
            unwanted.clear()

    def settle(self) -> None:
        """Wait until all that was queued is freed."""
        with self._signal:
            if self._thread is not None:
                self._asked += 1
                number = self._asked
                self._signal.notify_all()
                self._signal.wait_for(lambda: self._done >= number)

    def end(self) -> None:
        """Free what is queued, and end the thread."""
        with self._signal:
            self._ending, thread = True, self._thread
            self._signal.notify_all()
        if thread is not None:
            thread.join(_PATIENCE)

    def _run(self) -> None:
        while True:
            with self._signal:
                if not self._ending and self._done == self._asked:
                    self._signal.wait(_PAUSE)
                ending, asked = self._ending, self._asked
            while self._queue:
                self._queue.popleft().clear()  # the last references, unless somebody reads
            with self._signal:
                self._done = asked
                self._signal.notify_all()
            if ending:
                return


_disposal = _Disposal()


def begin() -> None:
    """Have the thread run."""
    _disposal.begin()


def discard(unwanted: list[Any]) -> None:
    """Have a list emptied in the background, which frees what only the list refers to. O(1)."""
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
