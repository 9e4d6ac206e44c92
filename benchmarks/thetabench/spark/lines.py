"""A line of ``spark.csv``: what one contestant did over one feed.

Columns that the other result files have too mean the same here; a *push* is a micro-batch. The
status is ``failed`` after an error and after a wrong answer. ``tuples_per_s`` is the rows of the
timed micro-batches over the sum of their ``triggerExecution``.
"""

from __future__ import annotations

from pathlib import Path

from thetabench.line import Columns, Line

COLUMNS = Columns("""
experiment         text   spark
workload           text
predicate          text
window             int    rows per side that the time window holds
batch              int    rows of a micro-batch, both sides together
partitions         int    of the join
tuples_per_s_low   float  the slowest timed micro-batch
tuples_per_s_high  float  the fastest timed micro-batch
p50_s              float  seconds per timed micro-batch
max_s              float
pushes             int    timed micro-batches
first_s            float  the first micro-batch, with the start of workers and compilers
total_rows         int    rows of all micro-batches, the untimed ones too
total_s            float  seconds of all micro-batches, those without data too
add_batch_s        float  of p50_s: the tasks; what is left is Spark's planning and bookkeeping
planning_s         float
bookkeeping_s      float  write-ahead log, offsets, commits
ns_keys            float  ns_…: of theta_join, nanoseconds per row,
ns_sort            float  all partitions added up; so these overlap in time
ns_probe           float
ns_insert          float
ns_merge           float
ns_expire          float
ns_gather          float
ns_save            float
stored_rows        int    rows in the state after the last micro-batch, copies included
packed_bytes       float  bytes of a row in Arrow's format
written_bytes      float  bytes given to the state store, per row of the timed micro-batches
store_bytes        float  bytes of the store's files in the checkpoint, per row of all micro-batches
hits               int    how often a partition was found alive,
attaches           int    mapped,
rebuilds           int    or read from the state store
normal_s           float  a restart: the median micro-batch before the stop, the first left out
cold_s             float  a restart: the first micro-batch of the first start, which had no state
slower_s           float  a restart: first_s (the first micro-batch after it) less normal_s
checked_pushes     int
matches            int
checksum           text
""", renamed={"figure": "part", "tuples": "rows"})  # fmt: skip


def read(path: Path) -> list[Line]:
    """Read a result file."""
    return COLUMNS.read(path, "thetastream bench spark", "of Spark")
