"""Workers that are forked from a process with everything loaded, and what happens if it cannot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from thetastream._jit import compiling
from thetastream.spark import daemon
from thetastream.spark.session import DAEMON, WARM


def facts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What this worker has in memory, and which process forked it."""
    import numpy as np

    ready = getattr(sys.modules.get("thetastream._jit.compiling"), "_ready", ())
    loaded = sorted(name for name in ready if ".kernels." in name)
    parent = Path(f"/proc/{os.getppid()}/cmdline").read_bytes().split(b"\0")
    found = {
        "loaded": loaded,
        "engine": "thetastream.spark.theta.step" in sys.modules,
        "parent": [part.decode() for part in parent],
        "worker": os.getpid(),
        "drawn": int(np.random.randint(1 << 62)),
    }
    for _ in batches:
        pass
    yield pa.record_batch({"facts": [json.dumps(found)]})


facts.__module__ = "__main__"  # Spark's workers get it by value, and import nothing for it


@pytest.mark.smoke
def test_workers_are_forked_with_everything_loaded(spark: Any) -> None:
    """A task that needs nothing of the library finds its kernels loaded by the daemon."""
    compiling.warm(*daemon.ROOMS)  # so that the cache has them
    assert spark.sparkContext.getConf().get(DAEMON) == WARM
    rows = spark.range(0, 8, 1, 2).mapInArrow(facts, "facts string").collect()
    found = [json.loads(row["facts"]) for row in rows]
    assert len(found) == 2
    for worker in found:
        assert "-m" in worker["parent"]
        assert WARM in worker["parent"]
        assert worker["engine"]
        expected = {"merge", "search"} if compiling.ENABLED else set()
        assert expected <= {name.rpartition(".")[2] for name in worker["loaded"]}
    if len({worker["worker"] for worker in found}) == 2:
        assert found[0]["drawn"] != found[1]["drawn"], "each worker has its own random numbers"


# --- When it cannot -----------------------------------------------------------------------------


def started(code: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Start the daemon after some code, as Spark does, and end it by closing its input."""
    script = f"import sys\n{code}\nfrom thetastream.spark import daemon\ndaemon.main()"
    return subprocess.run(
        [sys.executable, "-c", script, "pyspark.worker"],
        input=b"",
        capture_output=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        timeout=120,
    )


def is_port(output: bytes) -> bool:
    """Whether the output is what Spark reads: a number of four bytes, and nothing else."""
    return len(output) == 4 and 0 < int.from_bytes(output, "big") < 1 << 16


def test_the_daemon_starts_with_one_thread() -> None:
    done = started("")
    assert is_port(done.stdout)
    assert b"start cold" not in done.stderr


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (
            "import threading, time\n"
            "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
            b"2 threads run after loading",
        ),
        ("sys.modules['pandas'] = None", b"ModuleNotFoundError: "),
        (
            "import pathlib\nfrom thetastream.spark import daemon\n"
            "daemon._THREADS = pathlib.Path('/nowhere')",
            b"threads cannot be counted on this platform",
        ),
    ],
)
def test_otherwise_it_becomes_the_daemon_of_spark(code: str, reason: bytes) -> None:
    done = started(code)
    assert is_port(done.stdout)
    assert b"thetastream: Python workers start cold: " + reason in done.stderr


def test_what_loading_prints_does_not_reach_spark() -> None:
    code = (
        "from importlib import abc\n"
        "class Loud(abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        print('looking for', name)\n"
        "sys.meta_path.insert(0, Loud())"
    )
    done = started(f"from thetastream.spark import daemon\n{code}")
    assert b"looking for pandas" in done.stdout + done.stderr
    assert b"pandas" not in done.stdout
