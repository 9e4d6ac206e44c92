"""System calls that fail."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any


def failing(number: int) -> Callable[..., Any]:
    """A system call that fails with this error."""

    def fail(*_: object) -> Any:
        raise OSError(number, os.strerror(number))

    return fail
