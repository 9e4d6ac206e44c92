"""One contestant on one workload, in a process of its own; prints one line of JSON."""

from __future__ import annotations

import json
import sys
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from thetabench.finite.peers import CONTESTANTS, numbers
from thetabench.finite.workloads import WORKLOADS
from thetabench.machine import PeakMemory


def digest(left: Any, right: Any) -> int:
    """A number that is the same for the same pairs in any order."""
    with np.errstate(over="ignore"):
        mixed = left.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= right.astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)
        mixed ^= mixed >> np.uint64(29)
        return int((mixed * np.uint64(0xBF58476D1CE4E5B9)).sum(dtype=np.uint64))


def measure(workload: str, contestant: str, threads: int, scale: float, repeat: int) -> Any:
    """Run it; the first run, which may compile, is not timed if there are several."""
    pa.set_cpu_count(threads)
    work = WORKLOADS[workload]
    left, right = work.make(scale)
    run = CONTESTANTS[contestant][1](work, left, right, threads)
    seconds, peaks, answer = [], [], None
    for _ in range(repeat + 1):
        answer = None
        memory = PeakMemory()
        started = perf_counter()
        answer = run()
        seconds.append(perf_counter() - started)
        peaks.append(memory.growth)
    rows = numbers(answer)
    return {
        "seconds": sorted(seconds[1:])[repeat // 2],
        "peak_bytes": max(peaks),
        "pairs": len(rows[0]),
        "digest": str(digest(*rows)),
    }


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    try:
        print(json.dumps(measure(**asked)))
    except (NotImplementedError, ImportError) as error:
        print(json.dumps({"skipped": str(error)}))
