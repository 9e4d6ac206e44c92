"""Find the networks of IPv4 and IPv6 addresses, with a relation for each kind.

Addresses are binary of 4 and 16 bytes, in the order of their numbers. Networks are generated; one
may lie in another, and an address belongs to all that contain it. Every answer is checked.
"""

from ipaddress import ip_address
from pathlib import Path

import numpy as np
import pyarrow as pa

import thetastream as ts

NETWORKS = 20_000
KINDS = {4: pa.binary(4), 6: pa.binary(16)}


def networks(random: np.random.Generator, version: int) -> pa.Table:
    """Blocks of addresses: the first one, the last one, and who owns them."""
    width = KINDS[version].byte_width
    firsts, lasts = [], []
    for bits in random.integers(4, 6 * width, NETWORKS).tolist():
        first = int.from_bytes(random.bytes(width), "big") >> bits << bits
        firsts.append(first.to_bytes(width, "big"))
        lasts.append((first + (1 << bits) - 1).to_bytes(width, "big"))
    columns = [pa.array(ends, KINDS[version]) for ends in (firsts, lasts)]
    return pa.table([*columns, pa.array(range(NETWORKS))], names=["first", "last", "owner"])


def visits(random: np.random.Generator, table: pa.Table, version: int, rows: int) -> pa.Table:
    """Addresses, half of them at the beginning of a network."""
    width, firsts = KINDS[version].byte_width, table["first"].to_pylist()
    found = [random.bytes(width) for _ in range(rows // 2)]
    found += [firsts[at] for at in random.integers(0, NETWORKS, rows - rows // 2)]
    return pa.table({"ip": pa.array(found, KINDS[version]), "visit": np.arange(rows)})


def owners(ip: bytes, firsts: list[bytes], lasts: list[bytes]) -> set[int]:
    """A plain search; addresses of one length are in order as bytes."""
    return {at for at, low in enumerate(firsts) if low <= ip <= lasts[at]}


def main(folder: Path, rows: int = 400) -> dict[int, int]:
    """Return how many owners were found for each kind of address."""
    random, counts = np.random.default_rng(1), {}
    for version in KINDS:
        table = networks(random, version)
        stream = visits(random, table, version, rows)
        with (
            ts.Relation.build(
                folder / f"ipv{version}.rel", table, key=("first", "last")
            ) as relation,
            ts.RelationJoin(relation, "l.ip BETWEEN r.first AND r.last", memory="8 MB") as join,
        ):
            found = pa.Table.from_batches([*join.push(stream), *join.flush()], join.schema)
        pairs = set(zip(found["visit"].to_pylist(), found["owner"].to_pylist(), strict=True))
        ends = [table[name].to_pylist() for name in ("first", "last")]
        asked = list(enumerate(stream["ip"].to_pylist()))
        assert pairs == {(visit, own) for visit, ip in asked for own in owners(ip, *ends)}
        print(f"{ip_address(asked[-1][1])} and {rows - 1} others have {len(pairs):,} owners")
        counts[version] = len(pairs)
    return counts


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
