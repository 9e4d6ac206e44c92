"""Finding a device: which one is taken, and what is said when there is none."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import thetastream as ts
from thetastream.errors import RegistryError, StateError
from thetastream.index.subwindows.opencl import device as module
from thetastream.index.subwindows.opencl import find

CPU, GPU, ACCELERATOR = 2, 4, 8


class LogicError(Exception):
    pass


class NoDevice(Exception):
    pass


def driver(platforms: dict[str, list[tuple[str, int]] | None]) -> SimpleNamespace:
    """A pyopencl with platforms of devices of some kinds; None: a platform without devices."""

    def devices(held: list[tuple[str, int]] | None) -> list[SimpleNamespace]:
        if held is None:
            raise NoDevice
        return [SimpleNamespace(name=name, type=kind) for name, kind in held]

    def get_platforms() -> list[SimpleNamespace]:
        if not platforms:
            raise LogicError
        return [
            SimpleNamespace(name=name, get_devices=lambda held=held: devices(held))
            for name, held in platforms.items()
        ]

    return SimpleNamespace(
        get_platforms=get_platforms,
        device_type=SimpleNamespace(CPU=CPU, GPU=GPU, ACCELERATOR=ACCELERATOR),
        LogicError=LogicError,
        RuntimeError=NoDevice,
        Error=Exception,
    )


@pytest.fixture
def anew(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Devices are looked for again, and none is named by the environment."""
    monkeypatch.setattr(module, "_open", module._open.__wrapped__)
    monkeypatch.delenv(module.VARIABLE, raising=False)
    return monkeypatch


def test_the_library_does_not_import_pyopencl() -> None:
    code = (
        "import sys, thetastream as ts, thetastream.index.subwindows.opencl\n"
        "assert 'bi-sort-opencl' in ts.index.names()\n"
        "assert 'pyopencl' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_folder_of_pyopencl_is_needed(tmp_path: Path) -> None:
    code = (
        "import os, numpy as np, thetastream as ts\n"
        "index = ts.index.create('bi-sort-opencl', buffer=1)\n"
        "index.insert(np.arange(3), np.arange(3))\n"
        "assert index.ranges(np.array([1]), np.array([1])).matches == 1\n"
        "assert 'PYOPENCL_NO_CACHE' not in os.environ"
    )
    file = tmp_path / "file"  # no folder can be made in it
    file.touch()
    variables = {**os.environ, "XDG_CACHE_HOME": str(file), "POCL_CACHE_DIR": str(tmp_path)}
    variables.pop("PYOPENCL_NO_CACHE", None)
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, env=variables)


def refused(message: str, **options: str) -> None:
    with pytest.raises(RegistryError, match=message):
        ts.index.create("bi-sort-opencl", **options)


def test_without_pyopencl(anew: pytest.MonkeyPatch) -> None:
    anew.setitem(sys.modules, "pyopencl", None)  # as if it were not installed
    refused(r"needs the package pyopencl.*pip install 'thetastream\[opencl\]'")


@pytest.mark.parametrize("platforms", [{}, {"Empty": None}, {"Empty": []}])
def test_without_a_device(anew: pytest.MonkeyPatch, platforms: dict) -> None:
    anew.setitem(sys.modules, "pyopencl", driver(platforms))
    refused(r"no OpenCL device was found; install .*'thetastream\[opencl\]'.*POCL_CACHE_DIR")


def test_without_a_linker(anew: pytest.MonkeyPatch) -> None:
    anew.setattr(shutil, "which", lambda name: None)
    anew.setitem(sys.modules, "pyopencl", driver({module._POCL: [("cores", CPU)]}))
    refused(r"'cores' is PoCL's, .* 'ld' .* binutils")


def test_a_device_that_cannot_be_opened(anew: pytest.MonkeyPatch) -> None:
    anew.setitem(sys.modules, "pyopencl", driver({"Vendor": [("card", GPU)]}))

    def refuse(*_: object) -> None:
        raise LogicError("out of resources")

    anew.setattr(module, "OpenclDevice", refuse)
    refused(r"'card' could not be opened: out of resources; cho")


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("", "board"),
        ("card", "card"),
        ("VENDOR", "card"),
        ("cores", "cores"),
    ],
)
def test_which_device_is_taken(name: str, taken: str) -> None:
    cl = driver(
        {
            "Empty": None,
            "Portable": [("cores", CPU)],
            "Vendor": [("card", GPU)],
            "Other": [("board", ACCELERATOR)],
        }
    )
    assert module._choose(cl, name)[1].name == taken


def test_a_device_by_name(anew: pytest.MonkeyPatch) -> None:
    name = find().name
    index = ts.index.create("bi-sort-opencl", device=name.upper())
    assert index.details["device"] == name
    assert index.parameters["device"] == name.upper()
    refused("no OpenCL device has 'abacus'.*" + re.escape(name), device="abacus")
    anew.setenv(module.VARIABLE, "abacus")
    refused(rf"'abacus'.*device= or {module.VARIABLE}")
    assert ts.index.create("bi-sort-opencl", device=name).details["device"] == name


def test_a_device_is_opened_once() -> None:
    assert find() is find()


def test_a_fork_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    index = ts.index.create("bi-sort-opencl", buffer=1)
    monkeypatch.setattr(os, "getpid", lambda: 0)
    with pytest.raises(StateError, match="before this process was forked.*'spawn'"):
        ts.index.create("bi-sort-opencl")
    with pytest.raises(StateError, match="before this process was forked"):
        index.insert(np.arange(3), np.arange(3))
