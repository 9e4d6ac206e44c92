"""StreamJoin as a user meets it: what comes out, when, under which names; what it tells."""

from __future__ import annotations

import gc
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import thetastream as ts

from .join_rows import joined, pairs, rows, table

# --- What comes out -------------------------------------------------------------------------------


def test_rows_carry_the_columns_of_both_sides_with_a_suffix_where_names_clash():
    join = joined()
    left = table([1], a=["l"])
    right = table([1], b=["r"])
    (batch,) = join.push(left=left, right=right)
    assert batch.schema.names == ["x", "a", "x_right", "b"]
    assert batch.to_pylist() == [{"x": 1, "a": "l", "x_right": 1, "b": "r"}]


def test_columns_keeps_the_wanted_ones_in_the_wanted_order():
    join = joined(columns=["x_right", "a"])
    (batch,) = join.push(left=table([1], a=["l"]), right=table([2], b=["r"]))
    assert batch.to_pylist() == [{"x_right": 2, "a": "l"}]


def test_semi_and_anti_give_the_left_columns_alone():
    for how, expected in (("semi", [1]), ("anti", [7])):
        join = joined(how=how)
        got = rows(join.push(left=table([1, 7]), right=table([1, 2]))) + rows(join.flush())
        assert got == [{"x": x} for x in expected]


def test_batches_are_bounded_and_well_filled():
    join = joined(batch_rows=10)
    sizes = [b.num_rows for b in join.push(left=table([0] * 9), right=table([0] * 9))]
    assert sum(sizes) == 81
    assert max(sizes) <= 10
    assert len(sizes) <= 12


def test_every_payload_type_comes_through():
    payload = pa.table(
        {
            "x": pa.array([1, 2], pa.int64()),
            "list": pa.array([[1, None], None]),
            "struct": pa.array([{"a": 1}, {"a": None}]),
            "map": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64())),
            "dictionary": pa.array(["u", "v"]).dictionary_encode(),
            "text": ["é", None],
            "view": pa.array(["long enough not to be inlined", None], pa.string_view()),
            "binary": [b"\x00", None],
            "decimal": pa.array([None, 1], pa.decimal128(38, 2)),
            "zoned": pa.array([0, None], pa.timestamp("ns", "Europe/Berlin")),
            "flag": [True, None],
            "half": pa.array([1.5, None], pa.float16()),
        }
    )
    join = ts.StreamJoin("l.x = r.x", window=ts.CountWindow(10), how="full")
    got = rows(join.push(left=payload, right=payload.slice(1))) + rows(join.flush())
    whole = payload.to_pylist()
    assert len(got) == 2
    for row in got:
        left = {name: row[name] for name in payload.column_names}
        assert left in whole
    assert sorted(row["view_right"] is None for row in got) == [True, True]


def test_dictionaries_that_differ_from_push_to_push_come_through():
    join = ts.StreamJoin("l.x = r.x", window=ts.CountWindow(10))
    join.push(left=table([1], d=pa.array(["a"]).dictionary_encode()))
    join.push(left=table([1], d=pa.array(["b"]).dictionary_encode()))
    assert sorted(r["d"] for r in rows(join.push(right=table([1])))) == ["a", "b"]


# --- When it comes out ----------------------------------------------------------------------------


def test_state_is_updated_even_if_nobody_reads():
    join = joined()
    join.push(left=table([1]))
    assert pairs(join.push(right=table([1]))) == {(1, 1): 1}


def test_rows_can_be_read_after_later_pushes_have_expired_their_sources():
    join = joined(window=ts.CountWindow(2))
    join.push(left=table([1, 2], s=["a", "b"]))
    unread = join.push(right=table([1]))
    for x in range(100, 120):
        join.push(left=table([x], s=["z"]))
        join.push(right=table([x]))
    assert sorted(row["s"] for row in rows(unread)) == ["a", "b"]


def test_an_unmatched_row_comes_when_the_count_window_leaves_it_and_once():
    join = joined(how="left", window=ts.CountWindow(2))
    assert rows(join.push(left=table([1, 2]), right=table([50]))) == []
    assert pairs(join.push(left=table([3]))) == {(1, None): 1}
    assert pairs(join.flush()) == {(2, None): 1, (3, None): 1}


def test_an_unmatched_row_comes_when_the_frontier_passes_it():
    join = joined(how="left", window=ts.TimeWindow(10, time="t", lateness=2))
    old, young = table([1], t=[0]), table([7], t=[100])
    assert rows(join.push(left=old, right=table([9], t=[5]))) == []
    assert rows(join.push(left=young)) == []  # the right side may still be at 5
    assert rows(join.push(right=table([9], t=[12]))) == []  # frontier 10: a row at 10 could come
    assert pairs(join.push(right=table([9], t=[13]))) == {(1, None): 1}
    assert pairs(join.flush()) == {(7, None): 1}


def test_an_unmatched_row_behind_one_from_the_future_comes_in_time_too():
    join = joined(how="anti", window=ts.TimeWindow(10, time="t"))
    join.push(left=table([1, 2], t=[1000, 0]), right=table([9], t=[0]))
    assert rows(join.push(right=table([9], t=[100]))) == [{"x": 2, "t": 0}]


def test_a_semi_row_comes_once_at_its_first_match():
    join = joined(how="semi")
    join.push(left=table([1]))
    assert rows(join.push(right=table([1, 2]))) == [{"x": 1}]
    assert rows(join.push(right=table([1]))) == []
    assert rows(join.flush()) == []


def test_late_rows_are_dropped_and_counted():
    join = joined(window=ts.TimeWindow("10 s", time="t", lateness="2 s"), how="full")

    def at(*seconds):
        return pa.array([s * 10**6 for s in seconds], pa.timestamp("us", "UTC"))

    join.push(left=table([1], t=at(100)), right=table([50], t=at(100)))
    join.push(left=table([2, 3], t=at(97, 98)))
    assert join.metrics().dropped == 1
    assert join.metrics().sides["left"].dropped == 1
    assert {row["x"] for row in rows(join.flush())} == {1, 3, None}


def test_rows_by_rank_wait_for_their_turn_and_come_with_flush():
    join = joined(window=ts.CountWindow(1, order="o"))
    assert rows(join.push(left=table([1], o=[10]))) == []
    # Only the last right row before rank 10 is in the window of the left row.
    assert rows(join.push(right=table([1, 2], o=[1, 2]))) == []
    assert join.metrics().sides["left"].waiting_rows == 1
    assert pairs(join.flush()) == {(1, 2): 1}


def test_one_side_alone_is_flushed_with_its_own_columns():
    join = joined(how="left")
    join.push(left=table([1, 2]))
    assert rows(join.flush()) == [{"x": 1}, {"x": 2}]


def test_schemas_given_up_front_name_the_columns_of_a_side_that_never_comes():
    schema = table([]).schema
    join = joined(how="left", schemas=(schema, schema))
    join.push(left=table([1]))
    assert rows(join.flush()) == [{"x": 1, "x_right": None}]


def test_memory_is_bounded_while_only_one_side_comes():
    join = joined(window=ts.CountWindow(100))
    for start in range(0, 5000, 50):
        join.push(left=table(range(start, start + 50)))
    assert join.metrics().sides["left"].waiting_rows <= 150
    assert join.metrics().rows == 5000
    assert pairs(join.push(right=table([4899, 4900]))) == {(4900, 4899): 1, (4900, 4900): 1,
                                                           (4901, 4900): 1}  # fmt: skip


def test_memory_is_given_back_as_windows_slide():
    join = ts.StreamJoin("l.x = r.x", window=ts.TimeWindow(10, time="t"))
    big = 200_000
    wide = table(np.arange(big), t=np.zeros(big, np.int64), s=["payload"] * big)
    join.push(left=wide, right=wide)
    full = join.metrics().window_bytes
    for t in range(5, 100, 5):
        small = table([0], t=[t], s=["p"])
        join.push(left=small, right=small)
    assert join.metrics().window_rows < 10
    assert join.metrics().window_bytes < full / 50


@pytest.mark.parametrize("how", ["inner", "full"])
def test_a_row_from_the_future_does_not_hold_on_to_all_that_follow(how):
    """Rows leave from the front; one that is far ahead of its time must not block it."""
    window = ts.TimeWindow(20, time="t")
    ahead, plain = (ts.StreamJoin("l.x = r.x", window=window, how=how) for _ in range(2))
    list(ahead.push(left=table([-1], t=[10**9])))
    found = Counter()
    for step in range(150):
        batch = table(np.arange(100), t=np.full(100, step))
        for name, join in (("ahead", ahead), ("plain", plain)):
            found[name] += sum(b.num_rows for b in join.push(left=batch, right=batch))
            join.check()
    assert found["ahead"] == found["plain"] > 100_000
    assert plain.metrics().window_rows < 6_000
    assert ahead.metrics().window_rows < 15_000
    assert [row["x"] for row in rows(ahead.flush())] == ([-1] if how == "full" else [])


def test_index_bytes_stay_below_one_and_a_half_of_key_and_id():
    window, batch = 1 << 16, 1 << 12
    join = joined(window=ts.CountWindow(window), columns=["x"])
    random = np.random.default_rng(0)
    for _ in range(40):
        join.push(left=table(random.integers(0, 1 << 40, batch)))
        join.push(right=table(random.integers(0, 1 << 40, batch)))
    metrics = join.metrics()
    assert metrics.window_rows == 2 * window
    assert metrics.index_bytes <= 1.5 * 16 * metrics.window_rows


def test_results_are_the_same_rows_in_the_same_order_for_any_number_of_threads():
    random = np.random.default_rng(3)
    left, right = (table(random.integers(0, 900, 9000), i=np.arange(9000)) for _ in range(2))
    answers = []
    for threads in (1, 2, 5):
        join = joined(threads=threads)
        join.push(left=left.slice(0, 8960))
        join.push(left=left.slice(8960))
        answers.append([(r["i"], r["i_right"]) for r in rows(join.push(right=right))])
    assert answers[0] == answers[1] == answers[2]
    assert len(answers[0]) > 500


# --- A huge answer --------------------------------------------------------------------------------


def test_two_to_the_31_matches_from_one_push_come_in_chunks_without_much_memory():
    size = 1 << 16
    join = ts.StreamJoin("l.x = r.x", window=ts.CountWindow(size), how="left", columns=["i"])
    zeros = np.zeros(size, np.int64)
    join.push(left=table(zeros, i=np.arange(size)))
    gc.collect()
    before = pa.total_allocated_bytes()
    answer = joined("l.x <= r.x", window=ts.CountWindow(size), columns=["i"])
    answer.push(left=table(zeros, i=np.arange(size)))
    batches = answer.push(right=table(zeros[: 1 << 15]))
    seen = 0
    for _ in range(40):
        batch = next(batches)
        assert batch.num_rows <= 65_536
        seen += batch.num_rows
    assert seen > 40 * 30_000
    assert pa.total_allocated_bytes() - before < 64 << 20
    assert answer.metrics().matches < 1 << 31


@pytest.mark.slow
def test_two_to_the_31_matches_are_all_there():
    size = 1 << 16
    join = joined("l.x = r.x", window=ts.CountWindow(size), columns=["x"])
    zeros = np.zeros(size, np.int64)
    join.push(left=table(zeros))
    total = sum(batch.num_rows for batch in join.push(right=table(zeros[: 1 << 15])))
    assert total == join.metrics().matches == 1 << 31


# --- What it tells --------------------------------------------------------------------------------


def test_metrics_count_rows_matches_and_bad_rows():
    join = ts.StreamJoin("l.x = r.x", window=ts.CountWindow(10))
    nan = float("nan")
    left = pa.table({"x": [1.0, None, nan]})
    assert len(rows(join.push(left=left, right=left))) == 2
    metrics = join.metrics()
    assert (metrics.rows, metrics.matches, metrics.output_rows) == (6, 2, 2)
    assert (metrics.null_keys, metrics.nan_keys) == (2, 2)
    assert metrics["sides"]["left"].null_keys == 1
    assert metrics.window_rows == 6
    assert metrics.as_dict()["sides"]["right"]["rows"] == 3


def test_explain_names_tactic_index_and_estimate():
    join = joined()
    assert "made when the columns of both sides are known" in join.explain()
    join.push(left=table(range(500)), right=table(range(500)))
    text = join.explain()
    for word in ("ordered", "sorted-runs", "ns per row", "count window of 100"):
        assert word in text
    assert "estimated ns per row" in join.explain(verbose=True)
    assert text.as_dict()["plan"][0]["chosen"]["tactic"] == "ordered"


def test_explain_says_when_it_is_a_nested_loop():
    join = ts.StreamJoin("l.s NOT LIKE r.s", window=ts.CountWindow(10))
    assert "nested loop" in join.explain()
    words = pa.table({"s": ["a%", "abc"]})
    assert len(rows(join.push(left=words, right=words))) == 1
    assert "nested loop" in join.explain()


def test_plans_follow_the_keys():
    """Two bands: the plan moves from assumption to what the keys show, and answers stay."""
    random = np.random.default_rng(1)

    def batch(n):
        return pa.table({"x": random.integers(0, 10, n), "y": random.integers(0, 10**9, n)})

    on = "abs(l.x - r.x) <= 3 AND abs(l.y - r.y) <= 1000"
    auto, loop = (
        ts.StreamJoin(on, window=ts.CountWindow(4000), tactic=t) for t in ("auto", "nested-loop")
    )
    for _ in range(12):
        left, right = batch(500), batch(500)
        got, want = (
            Counter(tuple(r.values()) for r in rows(j.push(left=left, right=right)))
            for j in (auto, loop)
        )
        assert got == want
    chosen = auto.explain().as_dict()["plan"][0]["chosen"]
    assert "order of l.y - r.y" in chosen["first column"]
