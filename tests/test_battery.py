"""The battery over everything registered. Registering a structure or a tactic is what tests it."""

from __future__ import annotations

import pytest

import thetastream as ts
from thetastream.index.subwindows.chain import Chain
from thetastream.testing import INDEX_CHECKS, JOIN_CHECKS, IndexCheck, JoinCheck, make_join, tiny

from .scale import SHARE

# Every tactic by itself, and the index-based ones over every index: chains of subwindows, others.
CHAINS = [name for name in ts.index.names() if issubclass(ts.index.structure(name), Chain)]
TACTICS = [
    *ts.tactics(),
    *(f"ibwj/{name}" for name in ts.index.names() if name not in CHAINS),
    *(f"panjoin/{name}" for name in CHAINS if name != "subwindows"),
]
# They share their loops with others, so fewer examples do.
ALIKE = [tactic for tactic in TACTICS if "/" in tactic and tactic != "ibwj/pim-tree"]
FAST, LONG = 0.5 * SHARE, 4.0  # at length: what two processes try in an hour


@pytest.mark.battery
@pytest.mark.parametrize("check", INDEX_CHECKS, ids=lambda check: check.name)
@pytest.mark.parametrize("name", ts.index.names())
def test_index(name: str, check: IndexCheck) -> None:
    check.run(tiny(name), SHARE)


@pytest.mark.battery
@pytest.mark.parametrize("check", JOIN_CHECKS, ids=lambda check: check.name)
@pytest.mark.parametrize(
    "tactic", [pytest.param(t, marks=[pytest.mark.full] if t in ALIKE else []) for t in TACTICS]
)
def test_join(tactic: str, check: JoinCheck) -> None:
    scale = 2 * FAST if tactic == "auto" else FAST
    if tactic in ALIKE:
        scale = FAST / 4
    check.run(make_join(tactic), scale, may_refuse=tactic != "auto")


@pytest.mark.slow
@pytest.mark.parametrize("check", INDEX_CHECKS, ids=lambda check: check.name)
@pytest.mark.parametrize("name", ts.index.names())
def test_index_at_length(name: str, check: IndexCheck) -> None:
    check.run(tiny(name), LONG)


@pytest.mark.slow
@pytest.mark.parametrize("check", JOIN_CHECKS, ids=lambda check: check.name)
@pytest.mark.parametrize("tactic", TACTICS)
def test_join_at_length(tactic: str, check: JoinCheck) -> None:
    check.run(make_join(tactic), LONG / 3 if tactic in ALIKE else LONG, may_refuse=tactic != "auto")
