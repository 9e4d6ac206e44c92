"""Linear Road in one process: the last five minutes of all reports in one ordered index.

Q1: what was the last speed of a vehicle within a minute? A look-up of one key.
Q2: what was the average speed of a segment within five? An aggregate over a range of keys.

Reports arrive minute by minute, and old minutes leave as a whole. Every answer is checked.
"""

from itertools import islice

import numpy as np
import pyarrow as pa

import thetastream as ts
from thetastream.datasets import linear_road_batches

KEY = {"xway": (0, 15), "dir": (0, 1), "seg": (0, 99), "vid": (0, (1 << 20) - 1)}
COLUMNS = [*KEY, "time", "speed"]
Q2 = {"speed": ("speed", "mean"), "n": "count"}


def check(reports: pa.Table, minute: int, keys: list, q1: list, q2: list) -> None:
    """Compare with a plain pass over all reports per query."""
    rows = {name: reports[name].to_numpy() for name in COLUMNS}
    for (xway, direction, seg, vid), newest, answer in zip(keys, q1, q2, strict=True):
        here = (rows["xway"] == xway) & (rows["dir"] == direction) & (rows["seg"] == seg)
        speeds = rows["speed"][here & (rows["vid"] == vid) & (rows["time"] // 60 == minute)]
        assert newest == speeds[-1]
        speeds = rows["speed"][here & (rows["time"] // 60 > minute - 5)]
        assert answer["n"] == speeds.size
        assert np.isclose(answer["speed"], speeds.mean())


def main(minutes: int = 10, index: str = "auto") -> list[int]:
    """Query 20 vehicles per minute; return how many reports the last Q2 found for each."""
    window = ts.TimeWindow(300, time="time", slide=60)  # in seconds, like the reports
    roads = ts.WindowIndex(key=KEY, window=window, index=index)
    random, seen, q2 = np.random.default_rng(1), [], []
    stream = linear_road_batches(60, rate=200, accidents=12, positions=True, columns=COLUMNS)
    for minute, batch in enumerate(islice(stream, minutes)):
        roads.insert(batch)
        seen.append(batch)
        asked = batch.take(random.integers(0, batch.num_rows, 20)).select(list(KEY))
        keys = [tuple(row.values()) for row in asked.to_pylist()]
        q1 = roads.lookup(keys, last=60, columns=["speed"])["speed"].to_pylist()
        segments = [key[:3] for key in keys]  # all vehicles in each
        q2 = roads.aggregate(segments, segments, Q2, last=300).to_pylist()
        check(pa.Table.from_batches(seen), minute, keys, q1, q2)
        print(
            f"minute {minute}: {len(roads):6,} reports held; vehicle {keys[0][3]:4} goes {q1[0]:2} "
            f"mph, its segment {q2[0]['speed']:4.1f} mph on average of {q2[0]['n']} reports"
        )
    return [answer["n"] for answer in q2]


if __name__ == "__main__":
    main()
    print("All answers agree with a plain pass over the reports.")
