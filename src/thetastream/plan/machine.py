"""The machine behind measurements: processor, memory, interpreter. No host or user names."""

from __future__ import annotations

import os
import platform
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Machine:
    """What a reader needs to judge a measurement."""

    cpu: str
    cores: int
    memory_bytes: int
    system: str
    python: str

    @classmethod
    def here(cls) -> Machine:
        """Describe this machine."""
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()
        system = f"{platform.system()} {platform.machine()}"
        return cls(_cpu_model(), cores or 1, pages, system, platform.python_version())


def _cpu_model() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"
