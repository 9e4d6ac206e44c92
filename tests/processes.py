"""Processes that a test starts, and that end with it, whatever happens."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["started"]


@contextmanager
def started(*arguments: str, **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Run ``thetastream`` with these arguments; a process that still runs at the end is killed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "thetastream.cli", *arguments],
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        **options,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        process.wait()
