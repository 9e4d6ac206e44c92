"""Where a result comes from: processor, memory, versions. No names of hosts or users."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import pyarrow as pa

from thetastream.plan.machine import Machine


def versions(packages: Iterable[str]) -> str:
    """The versions of packages, as ``name version; …``."""
    found = []
    for package in packages:
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            found.append(f"{package} (source tree)")
    return "; ".join(found)


def provenance(packages: Iterable[str]) -> dict[str, Any]:
    """The columns of a result file that say where a line comes from."""
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    return {"versions": versions(packages), "date": date, **asdict(Machine.here())}


def thread_settings(threads: int) -> dict[str, str]:
    """The environment that holds libraries to a number of threads, set before they load."""
    names = (
        "POLARS_MAX_THREADS",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "RAYON_NUM_THREADS",
        "TOKIO_WORKER_THREADS",
    )
    return dict.fromkeys(names, str(threads))


def hold_to_one_thread() -> None:
    """Hold pyarrow, and libraries that are not loaded yet, to one thread in this process."""
    for name, value in thread_settings(1).items():
        os.environ.setdefault(name, value)
    pa.set_cpu_count(1)


def hold_to_cores(count: int) -> None:
    """Run this process on so many of its cores, the last ones; only Linux can."""
    if sys.platform == "linux":
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-count:])


class PeakMemory:
    """How far the resident memory of this process rises above where it was at the start.

    Linux can reset its high-water mark; elsewhere the peak of the whole life is compared.
    """

    def __init__(self) -> None:
        self._reset()
        self.base = _status("VmRSS") or _lifetime_peak()

    @property
    def peak(self) -> int:
        """Highest resident bytes since the start."""
        return _status("VmHWM") or _lifetime_peak()

    @property
    def growth(self) -> int:
        """Highest resident bytes above the start."""
        return max(self.peak - self.base, 0)

    @staticmethod
    def _reset() -> None:
        try:
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        except OSError:
            return  # not Linux, or not allowed: the peak then covers the whole life


def _status(field: str) -> int:
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    for line in lines:
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    return 0


def _lifetime_peak() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def resident_bytes(process: int) -> int:
    """The resident memory of a process; 0 where the system does not tell, or if it has ended."""
    try:
        pages = Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * resource.getpagesize()
