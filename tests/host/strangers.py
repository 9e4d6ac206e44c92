"""A second user of this host."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STRANGER = 65534


@contextmanager
def shared_folder() -> Iterator[Path]:
    """A folder like ``/tmp``, in which every user can write."""
    folder = Path(tempfile.mkdtemp(prefix="thetastream-test-", dir="/tmp"))
    folder.chmod(0o1777)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def as_stranger(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a shell command as another user. Only root can do that."""
    return subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        user=STRANGER,
        group=STRANGER,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=False,
    )


def plant(folder: Path) -> str:
    """Make a folder of another user under this name; return what is wrong with it.

    Without root's rights it is a link to a folder of root's.
    """
    if os.geteuid() == 0:
        done = as_stranger(f"mkdir -m 0777 {folder.name}", folder.parent)
        assert done.returncode == 0, done.stderr
        return f"belongs to user {STRANGER}, not to user 0"
    folder.symlink_to("/usr")
    return "is a symbolic link"
