"""The package: its names are pinned, its examples run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from thetastream import datasets

MODULES = ["thetastream.datasets"] + [
    f"thetastream.datasets.{module.name}" for module in pkgutil.iter_modules(datasets.__path__)
]


def test_names() -> None:
    assert datasets.__all__ == sorted(datasets.__all__, key=lambda n: (not n.isupper(), n))
    assert all(hasattr(datasets, name) for name in datasets.__all__)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
