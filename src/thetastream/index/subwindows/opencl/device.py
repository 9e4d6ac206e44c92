"""An OpenCL device: finding one, moving arrays, starting units.

Any device with a driver will do. ``pip install 'thetastream[opencl]'`` installs PoCL on Linux,
which runs kernels on the processor's own cores. ``device=`` or the environment variable
``THETASTREAM_OPENCL`` selects a device by part of its name or its platform's; otherwise an
accelerator is preferred to a graphics card, and that to a processor.

The program is built once per process and device; PoCL caches its builds on disk. A process that was
forked from one with an open device cannot use it, as a fork does not copy the driver's threads. It
gets an error instead of waiting forever.
"""

from __future__ import annotations

import os
import shutil
import warnings
from functools import cache
from importlib import resources
from threading import Lock
from typing import Any

import numpy as np

from thetastream._jit.arrays import Array
from thetastream.errors import RegistryError, StateError

VARIABLE = "THETASTREAM_OPENCL"
_KERNELS = ("merger", "indexer", "partitioner", "prober")
_GRAIN = 1024  # least work of a unit
_NO_CACHE = "PYOPENCL_NO_CACHE"  # read when pyopencl is imported
_POCL = "Portable Computing Language"


class OpenclDevice:
    """A device with the program built for it. Its methods may be called by several threads.

    Buffers are those of pyopencl; they live on the device, and here they are opaque.
    """

    def __init__(self, cl: Any, device: Any) -> None:
        self.name = str(device.name).strip()
        processor = bool(device.type & cl.device_type.CPU)
        # A core runs its units one after the other; another device runs groups of them in step.
        self.group = 1 if processor else 64
        self.units = int(device.max_compute_units) * (4 if processor else 256)
        self._cl = cl
        self._process = os.getpid()
        self._lock = Lock()
        self._context = cl.Context([device])
        self._queue = cl.CommandQueue(self._context)
        source = resources.files(__package__).joinpath("kernels.cl").read_text(encoding="utf-8")
        with warnings.catch_warnings():
            # Some compilers always warn; what they refuse is an error.
            warnings.simplefilter("ignore", cl.CompilerWarning)
            program = cl.Program(self._context, source).build()
        self._kernels = {name: cl.Kernel(program, name) for name in _KERNELS}

    def put(self, array: Array) -> Any:
        """A buffer with a copy of an array that is not empty."""
        flags = self._cl.mem_flags
        rows = np.ascontiguousarray(array, dtype=np.int64)
        return self._cl.Buffer(self._context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=rows)

    def room(self, size: int) -> Any:
        """A buffer for ``size`` numbers, not yet written."""
        return self._cl.Buffer(self._context, self._cl.mem_flags.READ_WRITE, 8 * size)

    def get(self, buffer: Any, *shape: int) -> Array:
        """Wait for all kernels started before, then return a buffer's contents. Do not write to it.

        No copy if the device shares the host's memory. The buffer lives as long as the array.
        """
        flags, order = self._cl.map_flags.READ, "C"
        self.check()
        with self._lock:
            array, _ = self._cl.enqueue_map_buffer(
                self._queue, buffer, flags, 0, shape, np.int64, order
            )
        return array  # type: ignore[no-any-return]

    def check(self) -> None:
        """Raise in a process that was forked since the device was opened."""
        if self._process != os.getpid():
            raise StateError(
                f"the OpenCL device {self.name!r} was opened before this process was forked, and "
                "cannot be used in it; start processes with 'spawn', or use OpenCL in them only"
            )

    def wait(self) -> None:
        """Wait until all kernels are done."""
        self._queue.finish()

    def start(self, kernel: str, work: int, *arguments: Any, units: int = 0) -> None:
        """Start a kernel for ``work`` rows or bounds; by ``units`` units, 0 for as many as fit.

        Kernels run in the order in which they were started.
        """
        units = units or max(1, min(self.units, work // _GRAIN))
        groups = -(-units // self.group)
        self.check()
        program, size = self._kernels[kernel], (groups * self.group,)
        with self._lock:
            for at, argument in enumerate(arguments):
                program.set_arg(at, np.int64(argument) if isinstance(argument, int) else argument)
            self._cl.enqueue_nd_range_kernel(self._queue, program, size, (self.group,))


def find(name: str = "") -> OpenclDevice:
    """The device with ``name`` in its name, else that of ``THETASTREAM_OPENCL``, else the best."""
    device = _open(name or os.environ.get(VARIABLE, ""))
    device.check()
    return device


@cache
def _open(name: str) -> OpenclDevice:
    cl = _pyopencl()
    platform, device = _choose(cl, name)
    if platform.name == _POCL and shutil.which("ld") is None:
        raise RegistryError(
            f"the OpenCL device {device.name!r} is PoCL's, which needs the linker 'ld' to build "
            "kernels, and none is on the path; install the package binutils of your system"
        )
    try:
        return OpenclDevice(cl, device)
    except cl.Error as error:
        raise RegistryError(
            f"the OpenCL device {device.name!r} could not be opened: {error}; choose another with "
            f"device= or {VARIABLE}"
        ) from error


def _pyopencl() -> Any:
    """The package, without its caches on disk, which fail or warn where they cannot be written.

    They save little here, as drivers have their own. The first import decides about them.
    """
    preset = _NO_CACHE in os.environ
    os.environ.setdefault(_NO_CACHE, "1")
    try:
        import pyopencl
    except ImportError as error:
        raise RegistryError(
            f"OpenCL needs the package pyopencl, which cannot be imported ({error}); install it "
            "with: pip install 'thetastream[opencl]'"
        ) from error
    finally:
        if not preset:
            del os.environ[_NO_CACHE]
    return pyopencl


def _choose(cl: Any, name: str) -> tuple[Any, Any]:
    """Platform and device."""
    kinds = cl.device_type
    rank = {kinds.ACCELERATOR: 0, kinds.GPU: 1}
    devices = sorted(_devices(cl), key=lambda pair: rank.get(pair[1].type, 2))
    if not devices:
        raise RegistryError(
            "no OpenCL device was found; install the driver of yours, or PoCL, which runs on the "
            "processor: pip install 'thetastream[opencl]'. If PoCL is installed, it has no folder "
            "to write its kernels to: name one in POCL_CACHE_DIR"
        )
    for platform, device in devices:
        if name.lower() in f"{platform.name} {device.name}".lower():
            return platform, device
    listed = ", ".join(f"{device.name.strip()!r} of {owner.name!r}" for owner, device in devices)
    raise RegistryError(
        f"no OpenCL device has {name!r} in its name or its platform's; there are {listed}. Name "
        f"one of them with device= or {VARIABLE}, or none to take the first"
    )


def _devices(cl: Any) -> list[tuple[Any, Any]]:
    try:
        platforms = cl.get_platforms()
    except cl.LogicError:  # there is none
        return []
    devices = []
    for platform in platforms:
        try:
            devices += [(platform, device) for device in platform.get_devices()]
        except cl.RuntimeError:  # a driver without a device
            continue
    return devices
