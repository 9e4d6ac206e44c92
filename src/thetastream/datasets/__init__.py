"""Seeded data for tests, demos and benchmarks, and loaders for real data sets.

A module per kind: ``keys``, ``rates``, ``workloads``, ``queries``, ``streams``, ``semi_stream``,
``tpch``, ``traffic`` and ``linear_road``, ``real``; ``cutting`` cuts streams into batches. The room
imports the vocabulary.

- key columns: :data:`DISTRIBUTIONS` and the functions in it, :func:`correlated`;
- match rates: :func:`band_width`, :func:`inequality_offset`, :func:`measured_match_rate`;
- benchmark workloads: :data:`WORKLOADS`, :func:`w1`, :func:`w2`, :func:`w3`;
- the queries of the SPO-Join paper: :data:`QUERIES`, :func:`q1`, :func:`q1_equal`, :func:`q2`,
  :func:`q3`; over real taxi trips :func:`taxi_q2`, :func:`taxi_q3`;
- realistic streams: :func:`trades_quotes`, :func:`power_cooling`, :func:`trips`;
- a stream and a table on disk: :func:`keyed_rows`, :func:`keyed_batches`, :func:`repeated`,
  :func:`local_zipf`, :func:`spread`; TPC-H through ``tpchgen-cli``: :func:`tpch_table`;
- Linear Road: :func:`linear_road_table` and :func:`linear_road_batches`; keys for an index
  :func:`linear_road_keys`, :func:`lrb_keys`, :func:`random_keys`, :func:`road_key`;
- real data, from the folder ``THETASTREAM_DATA``: the ``load_…`` functions;
- batches: :func:`cut`, :func:`interleave`.

>>> workload = w1(window=1024, rows=2000)
>>> workload.left.column_names
['x', 'id']
"""

from __future__ import annotations

from thetastream.datasets.cutting import cut, interleave
from thetastream.datasets.keys import (
    DISTRIBUTIONS,
    DOMAIN,
    Distribution,
    correlated,
    drifting_gaussian,
    gamma,
    gaussian,
    increasing,
    uniform,
    zipf,
)
from thetastream.datasets.linear_road import (
    linear_road_batches,
    linear_road_keys,
    linear_road_table,
    lrb_keys,
    random_keys,
    road_key,
)
from thetastream.datasets.queries import QUERIES, q1, q1_equal, q2, q3, taxi_q2, taxi_q3
from thetastream.datasets.rates import (
    Shape,
    band_width,
    gaussian_band_width,
    inequality_offset,
    measured_match_rate,
    uniform_band_width,
)
from thetastream.datasets.real import (
    data_folder,
    load_ais,
    load_lrb,
    load_quotes,
    load_taxi_debs2015,
    load_taxi_yellow_2019,
    load_taxi_zones,
    load_trades,
)
from thetastream.datasets.semi_stream import (
    keyed_batches,
    keyed_rows,
    local_zipf,
    repeated,
    spread,
)
from thetastream.datasets.streams import power_cooling, trades_quotes, trips
from thetastream.datasets.tpch import TPCH_TABLES, tpch_table
from thetastream.datasets.workloads import WORKLOADS, Workload, w1, w2, w3

__all__ = [
    "DISTRIBUTIONS",
    "DOMAIN",
    "QUERIES",
    "TPCH_TABLES",
    "WORKLOADS",
    "Distribution",
    "Shape",
    "Workload",
    "band_width",
    "correlated",
    "cut",
    "data_folder",
    "drifting_gaussian",
    "gamma",
    "gaussian",
    "gaussian_band_width",
    "increasing",
    "inequality_offset",
    "interleave",
    "keyed_batches",
    "keyed_rows",
    "linear_road_batches",
    "linear_road_keys",
    "linear_road_table",
    "load_ais",
    "load_lrb",
    "load_quotes",
    "load_taxi_debs2015",
    "load_taxi_yellow_2019",
    "load_taxi_zones",
    "load_trades",
    "local_zipf",
    "lrb_keys",
    "measured_match_rate",
    "power_cooling",
    "q1",
    "q1_equal",
    "q2",
    "q3",
    "random_keys",
    "repeated",
    "road_key",
    "spread",
    "taxi_q2",
    "taxi_q3",
    "tpch_table",
    "trades_quotes",
    "trips",
    "uniform",
    "uniform_band_width",
    "w1",
    "w2",
    "w3",
    "zipf",
]
