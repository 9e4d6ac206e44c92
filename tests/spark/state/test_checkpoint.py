"""A checkpoint belongs to its join: not to a spelling, nor to a machine; and to no other join."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from thetastream.errors import StateError
from thetastream.spark import explain, theta_join
from thetastream.spark.session import SHUFFLE
from thetastream.spark.state.fingerprint import differences, keys_in, unspelled
from thetastream.testing import assert_same_pairs, run_oracle
from thetastream.testing.driver import numbered
from thetastream.testing.streams import Scenario
from thetastream.window import TimeWindow

from ..drive import (
    joined,
    read_sink,
    read_stream,
    run_to_files,
    stream,
    without_closing,
    write_pushes,
)
from ..simulate import pairs_of
from ..test_session import set_to

ON = "abs(l.x - r.x) <= 2 AND l.v + 1 <= r.v * 2"
SPELLED = "ABS(l.X-r.x)<=2  and (l.v+1<= r.V * 2)"
WINDOW = TimeWindow("20 s", time="t", lateness="20 s")


def written(folder: Path, asked: Scenario, until: int) -> None:
    for position, name in enumerate(("left", "right")):
        write_pushes(folder / name, [push[position] for push in numbered(asked)[:until]])


def started(spark: Any, folder: Path, on: str = ON, window: Any = WINDOW, **options: Any) -> Any:
    left, right = (read_stream(spark, folder / name) for name in ("left", "right"))
    return theta_join(left, right, on, window, checkpoint=str(folder / "checkpoint"), **options)


@pytest.mark.smoke
@pytest.mark.parametrize("in_files", [False, True], ids=["state store", "files"])
def test_a_restart_elsewhere(spark: Any, tmp_path: Path, in_files: bool) -> None:
    """Other cores, another spelling, other shuffle partitions: one answer, exactly."""
    asked = Scenario(tuple(stream(5, pushes=4)), ON, WINDOW)
    options = {"state_path": str(tmp_path / "state")} if in_files else {}
    written(tmp_path, asked, 2)
    first = started(spark, tmp_path, partitions=3, **options)
    run_to_files(first, tmp_path)
    written(tmp_path, asked, 4)
    with set_to(spark, SHUFFLE, "5"):
        second = started(spark, tmp_path, SPELLED, **options)
        assert explain(second).as_dict()["partitioning"]["partitions"] == 3
        run_to_files(second, tmp_path)
    expected = list(without_closing(asked, run_oracle(asked).pairs))
    assert len(expected) > 10
    assert_same_pairs(pairs_of(read_sink(spark, tmp_path)), expected)
    for changed, told in (
        ({"on": ON.replace("<= 2", "< 2")}, r"predicate\n +was .*<= 2 AND"),
        ({"window": TimeWindow("21 s", time="t", lateness="20 s")}, r"window\n +was .*20 s"),
        ({"how": "semi"}, r"how\n +was +inner\n +is +semi"),
        ({"partitions": 2}, r"partitions\n +was +3, .*\n +is +2, (.*\n)+.*pass partitions=3"),
    ):
        with pytest.raises(StateError, match=told):
            started(spark, tmp_path, **(options | changed))


def test_a_new_checkpoint_and_one_without_the_argument(spark: Any, tmp_path: Path) -> None:
    """A checkpoint that is not there yet is fine; without checkpoint= a spelling may change."""
    asked = Scenario(tuple(stream(6, pushes=3)), ON, WINDOW)
    written(tmp_path, asked, 2)
    left, right = (read_stream(spark, tmp_path / name) for name in ("left", "right"))
    assert started(spark, tmp_path).isStreaming
    run_to_files(joined(left, right, asked), tmp_path)
    written(tmp_path, asked, 3)
    with set_to(spark, SHUFFLE, "7"):
        run_to_files(theta_join(left, right, SPELLED, WINDOW, partitions=2), tmp_path)
    expected = list(without_closing(asked, run_oracle(asked).pairs))
    assert expected
    assert_same_pairs(pairs_of(read_sink(spark, tmp_path)), expected)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("abs(l.limit - r.price) <= 0.01", "ABS(l.limit-r.price)<=0.01"),
        ("l.a < r.b AND l.c = r.c", "(left.A<right.`b`)  and (l.c = r.c)"),
        ("l.a < r.b AND (l.c = r.c OR l.d = r.d)", "l.a<r.b and (l.c=r.c or l.d=r.d)"),
        ("round(l.a) = r.a", "ROUND((l.a)) = r.a"),
    ],
)
def test_spellings(one: str, other: str) -> None:
    assert unspelled(one) == unspelled(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("abs(l.a - r.a) <= 1", "abs(l.a - r.a) < 1"),
        ("abs(l.a - r.a) <= 1", "abs(l.a - r.a) <= 1.5"),
        ("l.a - (l.b - r.a) < 1", "l.a - l.b - r.a < 1"),
        ("l.s = 'A' AND l.a = r.a", "l.s = 'a' AND l.a = r.a"),
        ("l.a < r.b", "r.a < l.b"),
        ("l.a = 1 AND (l.c = r.c OR l.d = r.d)", "l.a = 1 AND l.c = r.c OR l.d = r.d"),
    ],
)
def test_other_conditions(one: str, other: str) -> None:
    assert unspelled(one) != unspelled(other)


def test_partitions_of_an_older_record() -> None:
    was = {"partitions": "2, with the group keys 0, 6 that suit spark.sql.shuffle.partitions"}
    assert keys_in(was) == (0, 6)
    assert not differences(was, {"partitions": "2, with the group keys 0, 6"})
    assert differences(was, {"partitions": "2, with the group keys 0, 7"})
