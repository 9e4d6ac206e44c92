"""Prices and bills: what they come to, and how they are shown."""

from __future__ import annotations

import pytest

from thetastream.prices.batches import WORDS, Prices


def test_a_bill_is_a_sum() -> None:
    prices = Prices(search=10.0, merge=2.0)
    assert prices.of({}) == 0.0
    assert prices.of({"search": 1.5, "merge": 4.0}) == 23.0


def test_an_unknown_step_is_refused() -> None:
    with pytest.raises(AttributeError):
        Prices().of({"teleport": 1.0})


def test_large_items_are_shown_first_and_small_ones_not_at_all() -> None:
    prices = Prices(search=10.0, merge=2.0, match=1.0)
    shown = prices.items({"merge": 4.0, "search": 2.0, "match": 0.1})
    assert shown == {WORDS["search"]: "2 × 10 ns", WORDS["merge"]: "4 × 2 ns"}


def test_every_price_has_words_of_its_own() -> None:
    assert set(WORDS) == set(Prices().as_dict())
    assert len(set(WORDS.values())) == len(WORDS)
