"""The process from which Spark forks its Python workers, with all that a join needs in memory.

Spark starts one daemon per executor and kind of task, and asks it to fork a worker when it needs
one: at the start of a query, and again after a pause, as it ends workers that were idle for a
minute. A worker of ``pyspark.daemon`` then imports NumPy, Arrow, pandas and the engine, and loads
compiled kernels. This daemon has done that before it forks, and the workers share its memory.

A process can be forked safely while it has a single thread. Spark sets ``OMP_NUM_THREADS=1``, which
keeps NumPy from starting more, and here Arrow's jemalloc, which is not its default allocator, is
told to work without its thread. If loading fails or leaves more threads
than one, or if threads cannot be counted here, the process says so and becomes ``pyspark.daemon``,
whose workers load everything themselves.
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path

NAME = "thetastream.spark.daemon"
ROOMS = ("data", "boxes", "plan", "index.runs", "engine.partition")
"""Rooms whose kernels a join with the default tactic calls."""
_MODULES = (
    "pandas",
    "pyspark.worker",
    "pyspark.sql.streaming.stateful_processor_api_client",
    "thetastream.spark.frames",
    "thetastream.spark.theta.step",
    "thetastream.spark.theta.worker",
    "thetastream.spark.relation.worker",
)
_JEMALLOC = "JE_ARROW_MALLOC_CONF"
_THREADS = Path("/proc/self/task")


def main() -> None:
    """Be the daemon that Spark asked for. Standard output belongs to Spark."""
    reason = "threads cannot be counted on this platform" if not _THREADS.is_dir() else load()
    if reason is not None:
        print(f"thetastream: Python workers start cold: {reason}", file=sys.stderr, flush=True)
        os.execv(sys.executable, [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]])
    from pyspark.daemon import manager

    manager()


def load() -> str | None:
    """Load what workers need; return why the process must not be forked, None if it may be."""
    known = os.environ.get(_JEMALLOC)
    os.environ[_JEMALLOC] = ",".join(filter(None, [known, "background_thread:false"]))
    try:
        with redirect_stdout(sys.stderr):
            for name in _MODULES:
                import_module(name)
            from thetastream._jit import compiling
            from thetastream.spark.payload import WARM

            compiling.load(*ROOMS)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    threads = len(list(_THREADS.iterdir()))
    if threads > 1:
        return f"{threads} threads run after loading, and a process can only be forked with one"
    import numpy as np

    os.register_at_fork(after_in_child=np.random.seed)  # else all workers draw the same numbers
    os.environ[WARM] = "1"
    gc.collect()
    gc.freeze()
    return None


if __name__ == "__main__":
    main()
