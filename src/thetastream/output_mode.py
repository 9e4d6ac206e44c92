"""What a join returns for its matches: whole rows, pairs of numbers, ranges, or counts.

    rows     the columns of both rows of every pair
    pairs    the arrival numbers of both rows of every pair; no payload is read
    ranges   where the matches of a row lie in the sorted arrays of the other side: ⟨start, end⟩
    count    how many matches each row has

The last two need not write any pair, so a row that matches millions costs as much as one that
matches none.
"""

from __future__ import annotations

from enum import Enum

from thetastream.errors import OptionError
from thetastream.options.checks import read_choice
from thetastream.side import How


class Output(Enum):
    """What is given for matches.

    >>> Output.of("count").numbered, Output.of("rows").numbered
    (True, False)
    """

    ROWS = "rows"
    PAIRS = "pairs"
    RANGES = "ranges"
    COUNT = "count"

    @classmethod
    def of(cls, name: str | Output) -> Output:
        """Read it from its name."""
        return read_choice(cls, "output", name)

    @property
    def numbered(self) -> bool:
        """Whether rows are given by their arrival numbers, and their payload is not needed."""
        return self is not Output.ROWS

    @property
    def bounded(self) -> bool:
        """Whether the size of the answer does not grow with the matches."""
        return self in (Output.RANGES, Output.COUNT)

    def check(self, how: How, columns: object) -> None:
        """OptionError for a join that this cannot be the answer of."""
        if self.bounded and how is not How.INNER:
            raise OptionError(
                f"output={self.value!r} is for inner joins; got how={how.value!r}. "
                "Use output='pairs' or output='rows'"
            )
        if self.numbered and columns is not None:
            raise OptionError(
                f"columns= picks columns of the rows, and output={self.value!r} gives none of "
                "them; leave one of the two out"
            )
