"""The battery must notice mistakes: deliberately wrong indexes and joins fail it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import Phase, settings

from thetastream.index import Index, create
from thetastream.testing import INDEX_CHECKS, JOIN_CHECKS, make_join

INDEX = {check.name: check for check in INDEX_CHECKS}
JOIN = {check.name: check for check in JOIN_CHECKS}


@pytest.fixture(autouse=True)
def _unshrunk() -> Iterator[None]:
    """Failures are wanted here; making them small would only take time."""
    before = settings.get_current_profile_name()
    settings.register_profile("unshrunk", settings.get_profile(before), phases=[Phase.generate])
    settings.load_profile("unshrunk")
    yield
    settings.load_profile(before)


class Wrapped(Index):
    """An index that hands everything to a nested loop; subclasses break one thing."""

    name: ClassVar[str] = "nested-loop"
    summary: ClassVar[str] = "for tests"

    def __init__(self, columns: int) -> None:
        super().__init__(4, columns)
        self.inner = create("nested-loop", capacity=4, columns=columns)

    def insert(self, keys: Any, ids: Any) -> None:
        self.inner.insert(keys, ids)

    def probe(self, lows: Any, highs: Any, *, limit: int = 65_536) -> Iterator[tuple[Any, Any]]:
        return self.inner.probe(lows, highs, limit=limit)

    def expire(self, before: int) -> None:
        self.inner.expire(before)

    def __len__(self) -> int:
        return len(self.inner)

    @property
    def nbytes(self) -> int:
        return self.inner.nbytes

    def check(self) -> None:
        self.inner.check()

    def dump(self) -> tuple[Any, Any]:
        return self.inner.dump()


class Exclusive(Wrapped):
    def probe(self, lows: Any, highs: Any, *, limit: int = 65_536) -> Iterator[tuple[Any, Any]]:
        return self.inner.probe(lows, np.asarray(highs) - 1, limit=limit)


class Twice(Wrapped):
    def probe(self, lows: Any, highs: Any, *, limit: int = 65_536) -> Iterator[tuple[Any, Any]]:
        for chunk in self.inner.probe(lows, highs, limit=limit):
            yield chunk
            yield chunk


class Unlimited(Wrapped):
    def probe(self, lows: Any, highs: Any, *, limit: int = 65_536) -> Iterator[tuple[Any, Any]]:
        return self.inner.probe(lows, highs)


class Late(Wrapped):
    """Looks at the rows when the answer is read, not when it was asked for."""

    def probe(self, lows: Any, highs: Any, *, limit: int = 65_536) -> Iterator[tuple[Any, Any]]:
        yield from self.inner.probe(lows, highs, limit=limit)


class OffByOne(Wrapped):
    def expire(self, before: int) -> None:
        self.inner.expire(before - 1)


class Hoarder(Wrapped):
    @property
    def nbytes(self) -> int:
        return 10**9


@pytest.mark.parametrize(
    ("broken", "name"),
    [
        (Exclusive, "exact_one_column"),
        (Exclusive, "exact_two_columns"),
        (Twice, "duplicates"),
        (Unlimited, "chunk_limits"),
        (Late, "snapshot"),
        (OffByOne, "expiry_edges"),
        (Hoarder, "size"),
    ],
)
def test_a_broken_index_is_noticed(broken: Callable[[int], Index], name: str) -> None:
    INDEX[name].run(Wrapped, 0.5)
    with pytest.raises(AssertionError):
        INDEX[name].run(broken, 1.0)


class Censored:
    """A join that loses every third output row."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.inner = make_join("auto")(*args, **options)

    def push(self, **tables: Any) -> Iterator[Any]:
        return (
            batch.slice(0, batch.num_rows - batch.num_rows // 3)
            for batch in self.inner.push(**tables)
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@pytest.mark.parametrize("name", ["exact_count_windows", "exact_time_windows", "duplicates"])
def test_a_broken_join_is_noticed(name: str) -> None:
    with pytest.raises(AssertionError, match="missing"):
        JOIN[name].run(Censored, 1.0)
