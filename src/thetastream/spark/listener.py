"""Metrics of running queries: from a query's progress, or by listening to all of them.

Every partition reports once per micro-batch. The reports travel with the answer as Spark's
*observed metrics*, so they are in ``query.lastProgress`` and reach every listener, also under Spark
Connect.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from thetastream.spark.metrics import JoinMetrics, Progress, observed_reports, read_reports
from thetastream.spark.theta.pipeline import OBSERVED


def query_metrics(query: StreamingQuery) -> list[JoinMetrics]:
    """The metrics of a query's recent micro-batches, oldest first; one entry per join in each.

    >>> metrics = query_metrics(query)[-1]                                     # doctest: +SKIP
    >>> metrics.matches, metrics.numRowsDroppedByWatermark, metrics.rebuilds   # doctest: +SKIP
    """
    return [metrics for progress in query.recentProgress for metrics in _read(progress)]


def _read(progress: Progress) -> list[JoinMetrics]:
    return [read_reports(*each) for each in observed_reports(progress, OBSERVED, "partitions")]


class MetricsListener(StreamingQueryListener):
    """Collects the metrics of all joins of a session, or passes them to a function.

    >>> listener = MetricsListener(print)                                      # doctest: +SKIP
    >>> spark.streams.addListener(listener)                                    # doctest: +SKIP

    ``recent`` holds the last thousand micro-batches, oldest first.
    """

    def __init__(self, each: Callable[[JoinMetrics], None] | None = None) -> None:
        self.recent: deque[JoinMetrics] = deque(maxlen=1000)
        self._each = each

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """A micro-batch has ended."""
        for metrics in _read(event.progress):
            self.recent.append(metrics)
            if self._each is not None:
                self._each(metrics)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """What was seen stays in ``recent``."""
