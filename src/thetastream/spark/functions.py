"""A residual function on its way to Spark's Python workers: as bytes, as Spark sends its own."""

from __future__ import annotations

import pickle
from typing import Any

from pyspark import cloudpickle

from thetastream.condition.custom import PairFunction
from thetastream.errors import OptionError


class ShippedFunction:
    """A function of the driver, called in a worker. Lambdas and closures travel too."""

    def __init__(self, function: PairFunction) -> None:
        self.__name__ = str(getattr(function, "__name__", type(function).__name__))
        try:
            self._bytes: bytes = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
        except Exception as error:
            raise OptionError(
                f"residual={self.__name__} cannot be sent to Spark's workers: {error}. Pass a "
                "function that does not hold a session, a DataFrame, a lock or an open file"
            ) from error
        self._function: PairFunction | None = function

    def __call__(self, left: Any, right: Any) -> Any:
        if self._function is None:
            self._function = pickle.loads(self._bytes)
        return self._function(left, right)

    def __getstate__(self) -> dict[str, Any]:
        return {"__name__": self.__name__, "_bytes": self._bytes, "_function": None}
