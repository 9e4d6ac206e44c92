"""Databases and Spark beside our own join, on the real device (Figure 9, and ``spark``).

All get the same table and the same stream. A database answers batch after batch; its clock runs
during the query, not while a batch is loaded into it. Spark's clock is its own: the whole
micro-batch, the first two left out. Every answer is compared with a reference made by NumPy.
"""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterator
from contextlib import closing
from itertools import pairwise

import numpy as np
import pyarrow as pa

from thetabench.digest import Digest, check_pairs
from thetabench.race import Values
from thetabench.ssij.peers import Answer, enter, forget
from thetabench.ssij.peers.spark import join_stream
from thetabench.ssij.trial import AtOnce
from thetastream.data.batch import joined

MICRO_BATCHES = 6
_SECONDS = 300.0  # that a database has for its batches; Spark has twice as many


class Asking(AtOnce):
    """A database with the same budget; its files are not in the page cache at the start."""

    batches, warm = 10, 0
    """Of the stream; and those that are not timed."""

    def work(self) -> Values:
        """Check every answer, and add up those that count."""
        feed, truth = self.stock.feed(self.cell), self.stock.truth(self.cell)
        edges, rows, timed = cut(feed.keys.size, self.batches), 0, []
        with closing(self.answers(joined(feed.slice(*ends)) for ends in edges)) as answers:
            for number, (answer, ends) in enumerate(zip(answers, edges, strict=False)):
                answered = Digest(answer.matches, answer.checksum)
                check_pairs(self.name, number, answered, truth.summed(*ends))
                if number >= self.warm:
                    rows += ends[1] - ends[0]
                    timed.append(answer)
        seconds = sum(answer.seconds for answer in timed)
        return {
            **self.stock.about(self.cell),
            "tuples_per_s": rows / max(seconds, 1e-9),
            "seconds": seconds,
            "matches": sum(answer.matches for answer in timed),
            "tuples": rows,
        }

    def answers(self, batches: Iterator[pa.RecordBatch]) -> Generator[Answer, None, None]:
        """Join batch after batch, until it has taken too long."""
        folder, seconds = self.stock.folder / self.who.structure, 0.0
        budget, source = self.stock.budget(self.cell), self.stock.parquet(self.cell.table)
        folder.mkdir()
        try:
            self.say(f"loading {self.cell.table.rows:,} rows")
            with closing(enter(self.who.structure, source, "key", budget, folder)) as peer:
                forget(folder)
                for number, batch in enumerate(batches):
                    self.say(f"batch {number + 1} of {self.batches}")
                    answer = peer.join(batch)
                    seconds += answer.seconds
                    yield answer
                    if seconds > _SECONDS:
                        break
        finally:
            shutil.rmtree(folder, ignore_errors=True)


class Streaming(Asking):
    """Spark: micro-batches, one file each. The first hold the start of its workers."""

    batches, warm = MICRO_BATCHES, 2

    def answers(self, batches: Iterator[pa.RecordBatch]) -> Generator[Answer, None, None]:
        """Join all batches in one run."""
        self.say(f"{self.batches} micro-batches")
        yield from join_stream(
            self.who.structure, self.stock.parquet(self.cell.table), "key", list(batches),
            self.stock.folder, budget=self.stock.budget(self.cell),
            relation=self.stock.built(self.cell.table).path, limit=2 * _SECONDS,
        )  # fmt: skip


def cut(rows: int, count: int) -> list[tuple[int, int]]:
    """Batches, all of about the same size.

    >>> cut(25, 3)
    [(0, 8), (8, 16), (16, 25)]
    """
    return list(pairwise(np.linspace(0, rows, count + 1).astype(int).tolist()))
