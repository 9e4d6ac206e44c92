"""What a join returns: an iterator of batches that is also a stream of Arrow data.

Reading is forward only. Whatever reads it (``for``, ``to_table()``, another library through
``__arrow_c_stream__``) continues where the last reader stopped, and its ``schema`` stays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pyarrow as pa

from thetastream.data.frames import to_pandas, to_polars
from thetastream.display.facts import Facts, Shown
from thetastream.errors import StateError


class Result(Shown, Iterator[pa.RecordBatch], ABC):
    """Batches of one schema, read once.

    >>> import thetastream as ts
    >>> join = ts.StreamJoin("l.x = r.x", window=ts.CountWindow(9))
    >>> join.push({"x": [1, 2]}, {"x": [2, 3]}).to_table().to_pydict()
    {'x': [2], 'x_right': [2]}
    """

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns; they are the same whether there are rows or not."""

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def to_table(self) -> pa.Table:
        """The remaining rows as a pyarrow table. The batches are not copied."""
        return pa.Table.from_batches(self, self.schema)

    def to_pandas(self) -> Any:
        """The remaining rows as a pandas frame."""
        return to_pandas(self.to_table())

    def to_polars(self) -> Any:
        """The remaining rows as a Polars frame."""
        return to_polars(self.to_table())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The remaining rows for any library that reads Arrow streams."""
        reader = pa.RecordBatchReader.from_batches(self.schema, self)
        return reader.__arrow_c_stream__(requested_schema)

    def __array__(self, *_: object, **__: object) -> NoReturn:
        """Refused: libraries that do not read Arrow would make nonsense of the batches."""
        raise TypeError(
            "a join's result is a stream of Arrow batches, not an array; use .to_pandas(), "
            ".to_polars() or .to_table()"
        )

    def _shown(self) -> tuple[str, Facts]:
        try:
            columns = {field.name: field.type for field in self.schema}
        except StateError:
            return "no rows: the columns of one side are not known yet", {}
        return "rows to read: iterate, or .to_table(), .to_pandas(), .to_polars()", columns


class Streamed(Result):
    """Batches that are made while they are read; ``schema`` returns their columns when called.

    >>> batch = pa.record_batch({"x": [1]})
    >>> Streamed(lambda: batch.schema, iter([batch])).to_table().to_pydict()
    {'x': [1]}
    """

    def __init__(self, schema: Callable[[], pa.Schema], batches: Iterator[pa.RecordBatch]) -> None:
        self._schema = schema
        self._batches = batches

    @property
    def schema(self) -> pa.Schema:
        return self._schema()

    def __next__(self) -> pa.RecordBatch:
        return next(self._batches)
