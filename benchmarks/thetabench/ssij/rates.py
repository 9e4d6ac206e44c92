"""What rate of arrival a join sustains, and how long a burst is borne.

A rate is *sustained* when no row ever finds memory full and what waits does not grow. The greatest
such rate is looked for in a few runs, from the service rate on; each starts with an empty cache.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from thetabench.contestant import Unavailable
from thetabench.race import Say
from thetabench.ssij.drive import Arrivals, Drive

_TRIES = 3  # after a rate that was sustained
_DOWNS = 8  # until one is; runs that fail are short
_NEAR = 1.05  # how close the rates that were sustained and that were not come to each other
_FIRST = 0.85  # of the service rate: where the search begins
_DOWN, _UP = 0.55, 1.25
_MET = 0.999
_GRAINS = 50
_SHORTER = 0.85
_STEADY = 0.5  # of the stream, before a burst


def sustained(
    start: Callable[[float], Drive], service: float, say: Say, *, deadline: float = inf
) -> tuple[float, Drive]:
    """The greatest rate that is sustained, and the run that sustained it.

    Within 5 %, or three runs after the first such rate. ``start`` makes a join anew, and all that
    is needed to feed it at a rate.
    """
    good: tuple[float, Drive] | None = None
    bad, rate, left = 0.0, _FIRST * service, _DOWNS
    while left:
        say(f"a run at {rate:,.0f} rows per second")
        with start(rate) as drive:
            fine = drive.arrive(arrivals(rate, deadline)) and not drive.grows
            fine = fine and met(drive, deadline) >= _MET
        left = left - 1 if good or not fine else _TRIES
        if fine:
            good = rate, drive
        else:
            bad = rate
        if good and bad:
            if bad / good[0] < _NEAR:
                break
            rate = (good[0] * bad) ** 0.5
        else:
            rate *= _UP if good else _DOWN
    if good is None:
        raise Unavailable(f"no rate down to {bad:,.0f} rows per second was sustained")
    return good


def arrivals(rate: float, deadline: float) -> Arrivals:
    """Rows at a rate; each is offered within a fiftieth of the deadline."""
    return Arrivals(rate, grain=deadline / _GRAINS)


def met(drive: Drive, deadline: float) -> float:
    """Share of rows that were answered in time, from their arrival on; 1 when there were none."""
    latencies = drive.latencies
    return float((latencies <= deadline).mean()) if latencies.size else 1.0


def burst(start: Callable[[], Drive], rate: float, more: float, say: Say) -> tuple[float, Drive]:
    """Seconds that a burst of ``more`` times the rate may last, and a run that bore it.

    First the burst does not end, and memory is full at some moment: that is how long it may last at
    most. Then shorter ones are tried until one is borne, and all that comes after it.
    """
    say(f"burst × {more:g}, until memory is full")
    with start() as drive:
        begin = _STEADY * drive.rows / rate
        borne = drive.arrive(Arrivals(rate, begin, inf, more))
    if borne:
        return drive.rows / rate * (1 - _STEADY) / more, drive  # the stream ended first
    assert drive.overflow is not None
    lasting = drive.overflow - begin
    for _ in range(_DOWNS):
        if lasting <= 0:
            break
        say(f"burst × {more:g} for {lasting:.3g} s")
        with start() as drive:
            if drive.arrive(Arrivals(rate, begin, lasting, more)):
                return lasting, drive
        lasting *= _SHORTER
    raise Unavailable(f"{rate:,.0f} rows per second are not sustained, burst or no burst")
