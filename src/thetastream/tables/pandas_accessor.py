"""``frame.theta.join(other, on)`` for pandas frames, registered by ``import thetastream.pandas``.

>>> import pandas as pd
>>> import thetastream.pandas
>>> trades, quotes = pd.DataFrame({"p": [1, 5]}), pd.DataFrame({"q": [4, 9]})
>>> trades.theta.join(quotes, "abs(l.p - r.q) <= 1").to_dict("records")
[{'p': 5, 'q': 4}]
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from thetastream.condition.expression import Expression
from thetastream.condition.predicate import Predicate
from thetastream.side import How
from thetastream.tables.join import join

__all__ = ["ThetaAccessor"]


@pd.api.extensions.register_dataframe_accessor("theta")
class ThetaAccessor:
    """``frame.theta`` of a pandas frame."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def join(
        self, other: Any, on: str | Predicate | Expression, how: str | How = "inner", **options: Any
    ) -> Any:
        """``thetastream.join`` with this frame as the left side; all its options."""
        return join(self._frame, other, on, how, **options)
