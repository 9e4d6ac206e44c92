"""What a join returns for its matches: rows, pairs of numbers, ranges, or counts.

    rows     the columns of both rows of every pair
    pairs    the arrival numbers of both rows of every pair; no payload is read
    ranges   where the matches of a row lie in the sorted arrays of the other side: ⟨start, end⟩
    count    how many matches each row has

The last two write no pairs, so a row with millions of matches costs as much as one without any.
"""

from __future__ import annotations

from enum import Enum

from thetastream.errors import OptionError
from thetastream.options.checks import read_choice
from thetastream.side import How


class Output(Enum):
    """The form in which matches are returned.

    >>> Output.of("count").numbered, Output.of("rows").numbered
    (True, False)
    """

    ROWS = "rows"
    PAIRS = "pairs"
    RANGES = "ranges"
    COUNT = "count"

    @classmethod
    def of(cls, name: str | Output) -> Output:
        """Parse a name."""
        return read_choice(cls, "output", name)

    @property
    def numbered(self) -> bool:
        """Whether rows are identified by arrival numbers, so that no payload is needed."""
        return self is not Output.ROWS

    @property
    def bounded(self) -> bool:
        """Whether the size of the output is independent of the number of matches."""
        return self in (Output.RANGES, Output.COUNT)

    def check(self, how: How, columns: object) -> None:
        """Raise OptionError for a join that cannot have this output."""
        if self.bounded and how is not How.INNER:
            raise OptionError(
                f"output={self.value!r} is for inner joins; got how={how.value!r}. "
                "Use output='pairs' or output='rows'"
            )
        if self.numbered and columns is not None:
            raise OptionError(
                f"columns= selects columns of the rows, and output={self.value!r} has none of "
                "them; leave one of the two out"
            )
