"""Enrich a stream of calls with the price of its tariff, from a table of number ranges on disk.

A call belongs to the range that contains its number. The table is larger than the memory of the
join. Halfway through, prices change; later calls pay the new ones. Every answer is checked.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa

import thetastream as ts

RANGES, NUMBERS = 60_000, 10**9


def tariffs(random: np.random.Generator) -> pa.Table:
    """Adjacent ranges of numbers, every 50th missing, and what a minute costs in each."""
    edges = np.sort(random.choice(NUMBERS, RANGES + 1, replace=False))
    columns = {"lo": edges[:-1], "hi": edges[1:] - 1, "cents": random.integers(1, 50, RANGES)}
    names = [f"operator {i % 97}, area {i}" for i in range(RANGES)]
    return pa.table({**columns, "name": names}).filter(pa.array(np.arange(RANGES) % 50 != 0))


def calls(random: np.random.Generator, count: int = 20_000) -> pa.Table:
    """Calls, most of them to a few popular numbers."""
    numbers = (random.pareto(0.8, count) * 1e4).astype(np.int64) * 7919 % NUMBERS
    return pa.table({"number": numbers, "minutes": random.integers(1, 60, count)})


def check(found: pa.Table, table: pa.Table) -> None:
    """Compare with a plain search in the table."""
    lo, hi, cents = (table[name].to_numpy() for name in ("lo", "hi", "cents"))
    number = found["number"].to_numpy()
    at = np.searchsorted(lo, number, side="right") - 1
    inside = (at >= 0) & (number <= hi[at])
    assert np.array_equal(inside, found["cents"].is_valid().to_numpy())
    assert np.array_equal(cents[at[inside]], found["cents"].drop_null().to_numpy())


def main(folder: Path, batches: int = 10) -> list[int]:
    """Enrich batches of 20,000 calls; return how many calls of each had a tariff."""
    random, priced = np.random.default_rng(1), []
    table = tariffs(random)
    with ts.Relation.build(folder / "tariffs.rel", table, key=("lo", "hi")) as relation:
        on = "l.number BETWEEN r.lo AND r.hi"
        join = ts.RelationJoin(relation, on, memory="2 MB", how="left")
        print(f"{relation.rows:,} ranges, {relation.nbytes:,} bytes on disk, 2 MB of memory")
        for step in range(batches):
            if step == batches // 2:
                table = table.set_column(2, "cents", pa.array(random.integers(50, 99, len(table))))
                relation.update(table)
            found = pa.Table.from_batches([*join.push(calls(random)), *join.flush()])
            check(found, table)
            priced.append(found.num_rows - found["cents"].null_count)
            seen = join.metrics()
            print(
                f"batch {step}: {priced[-1]:,} of {found.num_rows:,} calls have a tariff; so far "
                f"{seen.hits:,} found in the cache, {seen.blocks_read:,} blocks read"
            )
        join.close()
    return priced


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
    print("All answers agree with a plain search in the table.")
