"""Loaders for the real data sets, which are kept beside the project and never inside it.

The folder is the argument ``folder`` or the environment variable ``THETASTREAM_DATA``. Every loader
returns one Arrow table, in file order unless asked to sort, with every row of the file: only an
option leaves rows out. Each loader says what differs from its files:

- timestamps are ``timestamp[us]``; with zone UTC where the source records the instant,
  without a zone where it records local clock time (both taxi sets);
- prices are float64 dollars, sizes int64, codes are strings;
- ``id`` is an int64 column 0, 1, 2, … in the order of the table.
"""

from __future__ import annotations

import gzip
import io
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from thetastream.errors import DataError, suggest

VARIABLE = "THETASTREAM_DATA"
"""The environment variable that names the data folder."""

_LOCAL = pa.timestamp("us")
_INSTANT = pa.timestamp("us", tz="UTC")

_TYPES = {"int": pa.int64(), "float": pa.float64(), "text": pa.string(), "local": _LOCAL}


def _columns(text: str) -> dict[str, pa.DataType]:
    """Columns written as ``name type, name type``."""
    pairs = (column.split() for column in text.split(","))
    return {name: _TYPES[kind] for name, kind in pairs}


_DEBS_COLUMNS = _columns(
    "medallion text, hack_license text, pickup_datetime local, dropoff_datetime local, "
    "trip_time_in_secs int, trip_distance float, pickup_longitude float, pickup_latitude float, "
    "dropoff_longitude float, dropoff_latitude float, payment_type text, fare_amount float, "
    "surcharge float, mta_tax float, tip_amount float, tolls_amount float, total_amount float"
)
_YELLOW_COLUMNS = _columns(
    "vendor_id int, pickup_datetime local, dropoff_datetime local, passenger_count int, "
    "trip_distance float, rate_code_id int, store_and_fwd_flag text, pickup_location_id int, "
    "dropoff_location_id int, payment_type int, fare_amount float, extra float, mta_tax float, "
    "tip_amount float, tolls_amount float, improvement_surcharge float, total_amount float, "
    "congestion_surcharge float"
)
_TICK_END = "exchange text, condition text, suspicious int"
_TRADE_COLUMNS = _columns(f"t int, price int, size int, {_TICK_END}")
_QUOTE_COLUMNS = _columns(f"t int, bid int, bid_size int, ask int, ask_size int, {_TICK_END}")
_ZONE_COLUMNS = _columns("LocationID int, Borough text, Zone text")
_LRB_NAMES = "type time vid speed xway lane dir seg pos qid sinit send dow tod day"
_AIS_COLUMNS = _columns(
    "Time local, MMSI int, Latitude_degrees float, Longitude_degrees float, COG_degrees float, "
    "SOG_knots float"
)
# 2013-10-07 00:00 in New York, which was four hours behind UTC all that day
_TICK_MIDNIGHT = np.datetime64("2013-10-07T04:00:00", "us").astype(np.int64)


def data_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """Find the data folder: the argument, else ``THETASTREAM_DATA``. Fail with advice otherwise."""
    chosen = folder if folder is not None else os.environ.get(VARIABLE)
    advice = f"Set {VARIABLE} to the folder of the real data sets (export {VARIABLE}=path/to/data)"
    if not chosen:
        raise DataError(f"No data folder is known. {advice}, or pass folder=….")
    path = Path(chosen)
    if not path.is_dir():
        source = "folder" if folder is not None else VARIABLE
        raise DataError(f"The data folder {str(path)!r} (from {source}) is absent. {advice}.")
    return path


def load_taxi_debs2015(
    folder: str | os.PathLike[str] | None = None, *, located: bool = False
) -> pa.Table:
    """First hour of the DEBS 2015 taxi trips: 10,004 rows sorted by drop-off.

    Times are New York clock time without a zone. Some trips have the place 0, 0 (156 pick-ups,
    167 drop-offs); ``located=True`` leaves out those with any longitude or latitude of 0.
    """
    table = _read(folder, "taxi_debs2015/sorted_data.csv", _DEBS_COLUMNS, header=False)
    if located:
        places = [name for name in table.column_names if name.endswith("itude")]
        known = [pc.not_equal(table[name], 0.0) for name in places]
        table = table.filter(_every(known))
    return _numbered(table)


def load_taxi_yellow_2019(
    folder: str | os.PathLike[str] | None = None,
    *,
    months: Sequence[int] = (1, 2, 3),
    sort: bool = False,
    in_months: bool = False,
) -> pa.Table:
    """Random yellow taxi trips of New York, 10,000 per month (January to March 2019).

    Times are New York clock time without a zone. ``sort=True`` orders by pick-up time (the files
    are unordered); ``in_months=True`` leaves out trips whose pick-up is dated outside the
    asked months of 2019 (one of March is dated in April).
    ``congestion_surcharge`` is NULL where the file has none.
    """
    unknown = [month for month in months if month not in (1, 2, 3)]
    if unknown or not months:
        raise DataError(f"months must be chosen from 1, 2, 3; got {tuple(months)}.")
    parts = [
        _read(
            folder, f"taxi_yellow_2019/yellow_tripdata_sample_2019-{month:02}.csv", _YELLOW_COLUMNS
        )
        for month in months
    ]
    table = pa.concat_tables(parts).combine_chunks()
    if in_months:
        picked = table["pickup_datetime"]
        asked = pc.is_in(pc.month(picked), pa.array(list(months), pa.int64()))
        table = table.filter(pc.and_(pc.equal(pc.year(picked), 2019), asked))
    if sort:
        table = table.sort_by("pickup_datetime")
    return _numbered(table)


def load_taxi_zones(folder: str | os.PathLike[str] | None = None) -> pa.Table:
    """Return the 265 taxi zones: ``location_id`` int64, ``borough`` and ``zone`` strings."""
    table = _read(folder, "taxi_yellow_2019/taxi-zone-lookup.csv", _ZONE_COLUMNS)
    return table.rename_columns(["location_id", "borough", "zone"])


def load_trades(symbol: str, folder: str | os.PathLike[str] | None = None) -> pa.Table:
    """Trades of one symbol (aig, bac, ibm, spy) on 2013-10-07, in time order.

    ``t`` timestamp[us, UTC] (the file has milliseconds since midnight in New York), ``price``
    float64 dollars (the file has 1/10,000 dollars), ``size`` int64 shares, ``exchange`` and
    ``condition`` codes as strings, ``suspicious`` bool, ``id``.
    """
    return _ticks(folder, symbol, "trade", _TRADE_COLUMNS, ["price"])


def load_quotes(
    symbol: str,
    folder: str | os.PathLike[str] | None = None,
    *,
    side: Literal["bid", "ask"] | None = None,
) -> pa.Table:
    """Quotes of one symbol (aig, bac, ibm) on 2013-10-07, in time order.

    ``t``, ``exchange``, ``condition``, ``suspicious`` and ``id`` as in :func:`load_trades`; ``bid``
    and ``ask`` float64 dollars, ``bid_size`` and ``ask_size`` int64 shares. A row quotes one side;
    the file has price 0 and size 0 for the other, here both are NULL, which never matches.
    ``side="bid"`` (or ``"ask"``) keeps only the rows that quote this side.
    """
    if side not in (None, "bid", "ask"):
        raise DataError(f"side must be 'bid', 'ask' or None; got {side!r}.")
    table = _ticks(folder, symbol, "quote", _QUOTE_COLUMNS, ["bid", "ask"])
    for name in ("bid", "ask"):
        absent = pc.equal(table[name], 0.0)
        for column in (name, f"{name}_size"):
            at = table.schema.get_field_index(column)
            values = pc.if_else(absent, pa.scalar(None, table[column].type), table[column])
            table = table.set_column(at, column, values)
    if side is not None:
        table = _numbered(table.drop_columns("id").filter(pc.is_valid(table[side])))
    return table


def load_lrb(
    folder: str | os.PathLike[str] | None = None,
    *,
    sample: bool = False,
    positions: bool = False,
) -> pa.Table:
    """Linear Road input of one expressway, seconds 0 to 1199: 506,774 tuples in time order.

    The 15 fields are int64: type, time (seconds from the start), vid, speed, xway, lane, dir, seg,
    pos (feet), qid, sinit, send, dow, tod, day, then ``id``. A field that does not apply is -1, as
    in the file. ``sample=True`` reads the 280 tuples of the 20-second sample instead;
    ``positions=True`` keeps only position reports (type 0).
    """
    name = "datafile20seconds.dat" if sample else "lineargenerator_x1_first1200s.dat.gz"
    columns = dict.fromkeys(_LRB_NAMES.split(), pa.int64())
    table = _read(folder, f"lrb/{name}", columns, header=False)
    if positions:
        table = table.filter(pc.equal(table["type"], 0))
    return _numbered(table)


def load_ais(folder: str | os.PathLike[str] | None = None, *, in_area: bool = False) -> pa.Table:
    """Ship positions in the Solent, 85 minutes of 2016-01-12: 18,623 rows in time order.

    ``t`` timestamp[us, UTC], ``mmsi`` int64 (the ship), ``lat`` and ``lon`` float64 degrees,
    ``cog`` degrees (course), ``sog`` knots (speed), ``id``. One row is far away (longitude 54.8):
    ``in_area=True`` keeps longitudes from -3 to 1 only.
    """
    table = _read(folder, "ais/SolentAIS_20160112_130211.csv", _AIS_COLUMNS)
    table = table.rename_columns(["t", "mmsi", "lat", "lon", "cog", "sog"])
    table = table.set_column(0, "t", pc.assume_timezone(table["t"], "UTC"))  # AIS time is UTC
    if in_area:
        table = table.filter(
            pc.and_(pc.greater_equal(table["lon"], -3.0), pc.less_equal(table["lon"], 1.0))
        )
    return _numbered(table)


def _ticks(
    folder: str | os.PathLike[str] | None,
    symbol: str,
    kind: str,
    columns: dict[str, pa.DataType],
    prices: list[str],
) -> pa.Table:
    root = data_folder(folder) / "ticks"
    known = sorted(path.parent.name for path in root.glob(f"*/*_{kind}.zip"))
    if symbol.lower() not in known:
        raise DataError(
            f"There are {kind}s of {', '.join(known) or 'no symbol'}; asked for {symbol!r}."
            f"{suggest(symbol.lower(), known)}"
        )
    raw = _read(folder, f"ticks/{symbol.lower()}/20131007_{kind}.zip", columns, header=False)
    millis = raw["t"].to_numpy()
    ticks = {"t": pa.array(millis * 1000 + _TICK_MIDNIGHT, _INSTANT)}
    for name in raw.column_names[1:]:
        ticks[name] = (
            pc.divide(pc.cast(raw[name], pa.float64()), 10_000) if name in prices else raw[name]
        )
    ticks["suspicious"] = pc.not_equal(raw["suspicious"], 0)
    return _numbered(pa.table(ticks))


def _read(
    folder: str | os.PathLike[str] | None,
    name: str,
    columns: dict[str, pa.DataType],
    *,
    header: bool = True,
) -> pa.Table:
    """Read one CSV file, plain, gzip or zip of one member, with the given names and types."""
    path = data_folder(folder) / name
    if not path.is_file():
        raise DataError(f"The data folder {str(path.parent)!r} has no file {path.name!r}.")
    with _opened(path) as file:
        return pyarrow.csv.read_csv(
            file,
            read_options=pyarrow.csv.ReadOptions(column_names=None if header else list(columns)),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=columns, include_columns=list(columns), strings_can_be_null=False
            ),
        ).combine_chunks()


def _opened(path: Path) -> IO[bytes]:
    if path.suffix == ".gz":
        return io.BytesIO(gzip.decompress(path.read_bytes()))
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            (member,) = archive.namelist()
            return io.BytesIO(archive.read(member))
    return path.open("rb")


def _every(masks: list[pa.ChunkedArray]) -> pa.ChunkedArray:
    kept = masks[0]
    for mask in masks[1:]:
        kept = pc.and_(kept, mask)
    return kept


def _numbered(table: pa.Table) -> pa.Table:
    if "id" in table.column_names:
        table = table.drop_columns("id")
    return table.append_column("id", pa.array(np.arange(table.num_rows, dtype=np.int64)))
