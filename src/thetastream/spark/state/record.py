"""The record of a partition: which rows its state holds, and where they lie.

    run        rows [start, start + rows) of a side, numbered in the order in which they were stored
    stored     how many rows each side has stored so far
    seen       the largest event time of each side in all partitions, if Spark has no watermark here
    token      names this state; every write makes a new one
    ancestors  the tokens of the states that this one followed, the latest last

An engine that is alive with an ancestor's token lacks the rows from that state's ``stored`` on.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from thetastream.errors import StateError
from thetastream.side import Side
from thetastream.spark.state.digest import old_digest
from thetastream.spark.state.fingerprint import refuse_another

FORMAT = 3
READABLE = (1, 2, FORMAT)
# In format 1 all rows have a copy mark, even if there are no copies. Up to format 2, a run has a
# CRC-32 instead of a digest, and does not say where it starts.
ANCESTORS = 16


class Blobs(Protocol):
    """A place for named blobs."""

    def get(self, name: str) -> bytes | None:
        """A blob."""

    def put(self, name: str, data: bytes | pa.Buffer) -> None:
        """Write a blob."""

    def remove(self, name: str, size: int = 0) -> None:
        """Remove a blob of that size."""


class StateStore(Blobs, Protocol):
    """The state store of the partition being processed."""

    def read_meta(self) -> str | None:
        """The record, or None before the first write."""

    def write_meta(self, text: str) -> None:
        """Replace the record."""


@dataclass
class RunBlob:
    """One immutable blob of rows. ``last`` is their largest event time, or position."""

    id: str
    side: str
    rows: int
    bytes: int
    digest: str
    last: int
    start: int

    @classmethod
    def of(cls, facts: dict[str, Any]) -> RunBlob:
        """A run of any readable format."""
        checksum = facts.pop("checksum", None)
        return cls(**facts) if checksum is None else cls(**facts, digest=old_digest(checksum))

    @property
    def end(self) -> int:
        """The number of the row after its last one."""
        return self.start + self.rows


@dataclass
class Meta:
    """The record of a partition."""

    fingerprint: dict[str, str]
    lineage: str
    token: str
    runs: list[RunBlob] = field(default_factory=list)
    tops: dict[str, int] = field(default_factory=dict)
    timer: int | None = None
    ranks: dict[str, dict[str, int | None]] = field(default_factory=dict)
    commits: int = 0
    graves: list[tuple[str, int]] = field(default_factory=list)
    stored: dict[str, int] = field(default_factory=dict)
    ancestors: list[str] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)
    format: int = FORMAT

    def of_side(self, side: Side) -> list[RunBlob]:
        """The runs of a stream, oldest first."""
        return [run for run in self.runs if run.side == side.value]

    def renew(self) -> None:
        """Name a new state, which follows this one."""
        self.ancestors = [*self.ancestors, self.token][-ANCESTORS:]
        self.token = uuid.uuid4().hex

    def as_text(self) -> str:
        """As JSON."""
        return json.dumps({**vars(self), "runs": [vars(run) for run in self.runs]})

    @classmethod
    def of(cls, text: str, where: str) -> Meta:
        """Read a record; StateError for an unknown format.

        The next record has the present format. Runs are not rewritten: a reader selects columns.
        """
        facts: dict[str, Any] = json.loads(text)
        number = facts.pop("format", None)
        if number not in READABLE:
            raise StateError(
                f"{where}: the checkpoint holds state of format {number}, and this version reads "
                f"formats {', '.join(map(str, READABLE))}; restart with the version that wrote "
                "it, or with a new checkpoint location"
            )
        stored = facts.setdefault("stored", {})
        if number < FORMAT:
            for run in facts["runs"]:
                run["start"] = stored.get(run["side"], 0)
                stored[run["side"]] = run["start"] + run["rows"]
        runs = [RunBlob.of(run) for run in facts.pop("runs")]
        graves = [(name, commit) for name, commit in facts.pop("graves")]
        return cls(runs=runs, graves=graves, **facts)


def new_meta(fingerprint: Mapping[str, str]) -> Meta:
    """The record of a new partition."""
    return Meta(dict(fingerprint), uuid.uuid4().hex, uuid.uuid4().hex)


def check_fingerprint(meta: Meta, now: Mapping[str, str], where: str) -> None:
    """Refuse state of another join, and say what differs."""
    refuse_another(meta.fingerprint, now, where)
