"""One contestant in a process of its own, with its own memory peak and its own thread settings.

``python -m thetabench.foundation.worker FOLDER SPEC SECONDS`` reads the feed from the folder, and
prints one JSON object: the seconds and the digest of every push, phases, memory, versions.

A small copy of the contestant runs first, so that imports and compilation are over when the clock
starts. The first pushes are not timed (at most four, as long as they take less than a quarter of
the budget), but their answers are checked like all others. Then pushes are timed until the budget
of seconds is spent or the feed ends.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from thetabench.contestant import Contestant, MissingPackage, parse_spec
from thetabench.digest import Digest, digest
from thetabench.feed import Feed
from thetabench.machine import PeakMemory, versions
from thetabench.peers import create

_UNTIMED_PUSHES = 4
_UNTIMED_SHARE = 0.25
_REHEARSAL_ROWS = 2048


def measure(feed: Feed, spec: str, seconds: float) -> dict[str, Any]:
    """Run a contestant over a feed for some seconds and report what happened."""
    _, options = parse_spec(spec)
    pa.set_cpu_count(int(options.get("threads", "1")))
    _rehearse(feed, spec)
    memory = PeakMemory()
    contestant = create(spec, feed.query)
    contestant.prefill(*feed.prefill())
    gc.collect()
    report = _run(feed, contestant, seconds)
    return {
        **report,
        "peak_bytes": memory.growth,
        "rss_bytes": memory.peak,
        "index_bytes": contestant.index_bytes(),
        "versions": versions(contestant.packages),
    }


def _run(feed: Feed, contestant: Contestant, seconds: float) -> dict[str, Any]:
    times: list[float] = []
    digests: list[Digest] = []
    untimed, spent, timed, cpu = 0, 0.0, 0.0, 0.0
    most_untimed = min(_UNTIMED_PUSHES, feed.pushes // 4)
    phases = dict(contestant.phases())
    for push in range(feed.pushes):
        side, rows = feed.side(push), feed.rows(push)
        started, cpu_started = time.perf_counter(), time.process_time()
        answer = contestant.push(side, rows)
        times.append(time.perf_counter() - started)
        cpu += time.process_time() - cpu_started
        digests.append(digest(answer))
        del answer
        spent += times[-1]
        if push == untimed < most_untimed and spent < _UNTIMED_SHARE * seconds:
            untimed += 1
            phases, cpu = dict(contestant.phases()), 0.0
            continue
        timed += times[-1]
        if timed >= seconds:
            break
    after = contestant.phases()
    return {
        "seconds": times,
        "untimed": untimed,
        "cpu_seconds": cpu,
        "digests": digests,
        "phases": {name: after[name] - phases.get(name, 0.0) for name in after},
    }


def _rehearse(feed: Feed, spec: str) -> None:
    """Run a small copy of the join: a window of a few rows, two pushes of each side."""
    rows = min(_REHEARSAL_ROWS, feed.left.num_rows)
    right = None if feed.right is None else feed.right.slice(0, rows)
    small = Feed(feed.query, max(rows // 4, 1), rows // 2, feed.left.slice(0, rows), right)
    contestant = create(spec, feed.query)
    contestant.prefill(*small.prefill())
    for push in range(small.pushes):
        contestant.push(small.side(push), small.rows(push))


def main(folder: str, spec: str, seconds: str) -> None:
    """Measure one contestant over a saved feed; the result is JSON on standard output."""
    try:
        report = measure(Feed.load(Path(folder)), spec, float(seconds))
    except MissingPackage as missing:
        report = {"reason": str(missing)}
    json.dump(report, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
