"""Structures of the registry, made by name; what cannot be had has a reason."""

from __future__ import annotations

from thetabench import judy
from thetabench.contestant import Unavailable
from thetabench.figure import Parameters
from thetastream.errors import RegistryError
from thetastream.index import Index, create, names


def made(name: str, capacity: int, parameters: Parameters = (), columns: int = 1) -> Index:
    """Make an empty structure, or say why it cannot be had.

    ``name`` may say what is inside, as in ``ptwi/radix-trie``.
    """
    judy.add()
    if any(part not in names() for part in name.split("/")):
        raise Unavailable(f"there is no structure {name}")
    try:
        return create(name, capacity=capacity, columns=columns, **dict(parameters))
    except RegistryError as error:
        raise Unavailable(str(error)) from None
