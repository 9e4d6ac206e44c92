"""Theta joins on Spark: DataFrames in, a DataFrame out, streaming or static.

    from thetastream.spark import configure, theta_join

    spark = configure(SparkSession.builder).getOrCreate()
    out = theta_join(left, right, "abs(l.price - r.price) <= 0.05",
                     window=ts.TimeWindow("10 minutes", time="t", lateness="30 s"), how="left")
    out.writeStream…

``theta_join(stream, table, on)`` needs no window; ``relation_join(stream, path, on)`` enriches a
DataFrame from a table on disk.

The joins lie in ``theta``, ``table`` and ``relation``, what a partition keeps in ``state``. They
share ``session`` (settings, checks), ``starting`` (checks of a query that begins), ``types``
(Spark's types as Arrow's), ``expressions`` (what Spark computes), ``columns`` (which columns travel
and are returned), ``functions`` (a user's function on its way to workers), ``launch`` (what workers
unpickle first), ``frames`` (Arrow through pandas without a copy), ``blobs`` (rows as Arrow
streams), ``payload`` (joins as bytes), ``daemon`` (warm Python workers), ``metrics`` and
``listener`` (reports); ``demo`` is the query of ``thetastream demo``. The room
imports the engine, tables and relations.

This is the only package that imports pyspark. Names are loaded on first use, since Python
workers import it too.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from thetastream.spark.listener import MetricsListener as MetricsListener
    from thetastream.spark.listener import query_metrics as query_metrics
    from thetastream.spark.relation.operator import relation_join as relation_join
    from thetastream.spark.relation.report import relation_metrics as relation_metrics
    from thetastream.spark.session import configure as configure
    from thetastream.spark.theta.explanation import explain as explain
    from thetastream.spark.theta.operator import theta_join as theta_join

_MODULES = {
    "MetricsListener": "listener",
    "configure": "session",
    "explain": "theta.explanation",
    "query_metrics": "listener",
    "relation_join": "relation.operator",
    "relation_metrics": "relation.report",
    "theta_join": "theta.operator",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'thetastream.spark' has no attribute {name!r}")
    value = getattr(import_module(f"thetastream.spark.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
