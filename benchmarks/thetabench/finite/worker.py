"""One contestant on one workload, in a process of its own; prints one line of JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from statistics import median_low
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from thetabench.finite.peers import CONTESTANTS, numbers
from thetabench.finite.workloads import WORKLOADS
from thetabench.machine import PeakMemory, hold_to_cores

LONG = 10.0  # seconds of a first run that is not repeated: compiling is little of it
SHORT, SHORT_RUNS = 2.0, 7  # runs below so many seconds are repeated so often


def digest(left: Any, right: Any) -> int:
    """A number that is the same for the same pairs in any order."""
    with np.errstate(over="ignore"):
        mixed = left.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= right.astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)
        mixed ^= mixed >> np.uint64(29)
        return int((mixed * np.uint64(0xBF58476D1CE4E5B9)).sum(dtype=np.uint64))


def measure(workload: str, contestant: str, threads: int, scale: float, repeat: int) -> Any:
    """Run it; the first run, which may compile, is not counted, unless it is a long one.

    Short runs, which vary most, are repeated at least ``SHORT_RUNS`` times. The median is kept.
    """
    pa.set_cpu_count(threads)
    work = WORKLOADS[workload]
    left, right = work.make(scale)
    run = CONTESTANTS[contestant][1](work, left, right, threads)
    seconds: list[float] = []
    peaks: list[int] = []
    answer = None
    while len(seconds) < _runs(seconds, repeat):
        answer = None
        memory = PeakMemory()
        started = perf_counter()
        answer = run()
        seconds.append(perf_counter() - started)
        peaks.append(memory.growth)
    rows = numbers(answer)
    return {
        "seconds": median_low(seconds[1:] or seconds),
        "peak_bytes": max(peaks),
        "pairs": len(rows[0]),
        "digest": str(digest(*rows)),
    }


def _runs(seconds: Sequence[float], repeat: int) -> int:
    """How many runs there are, after some of them: the first one and those that count."""
    if not seconds or seconds[0] >= LONG:
        return 1
    return 1 + max(repeat, SHORT_RUNS if min(seconds) < SHORT else 1)


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    hold_to_cores(asked["threads"])
    try:
        print(json.dumps(measure(**asked)))
    except (NotImplementedError, ImportError) as error:
        print(json.dumps({"skipped": str(error)}))
