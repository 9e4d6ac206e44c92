"""Which rows form a session, in plain Python: the oracle of session windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from thetastream.duration import Interval
from thetastream.side import Side
from thetastream.window import SessionWindow


class Row(Protocol):
    """The fields of an arrived row that are read and written here."""

    values: Mapping[str, Any]
    time: Any
    late: bool
    session: int | None


def assign_sessions(
    rows: Mapping[Side, Sequence[Row]],
    window: SessionWindow,
    equal: Callable[[Any, Any], bool],
) -> None:
    """Number the sessions: rows of one key, in order of time, with no gap above ``window.gap``.

    Late rows, and rows without a time or a key, belong to no session.
    """
    gap = window.gap.nanoseconds if isinstance(window.gap, Interval) else window.gap
    keys: list[Any] = []  # the distinct keys so far
    members: list[tuple[int, Any, Row]] = []
    for side, arrived in rows.items():
        for row in arrived:
            key = 0 if window.by is None else row.values[window.by[side.position]]
            if row.late or row.time is None or key is None:
                continue
            alike = [at for at, known in enumerate(keys) if equal(known, key)]
            keys += [] if alike else [key]
            members.append((alike[0] if alike else len(keys) - 1, row.time, row))
    number, last = -1, (-1, 0)
    for at, time, row in sorted(members, key=lambda member: member[:2]):
        if at != last[0] or time - last[1] > gap:
            number += 1
        row.session, last = number, (at, time)
