"""Folders and files that no other user of the host can read or write.

Run files hold rows, and the compile cache holds code. Both may lie in folders where every user can
write, such as ``/tmp`` or ``/dev/shm``, under names that can be guessed. So nothing that is found
there is trusted for its name: a folder is used if it is a real folder, belongs to this user, and
no other user can write to it. Otherwise another one beside it is used, and a line says so. Modes
are set explicitly, whatever the umask. Symbolic links are not followed.

    folder   0700        file   0600, written under another name, then renamed
"""

from __future__ import annotations

import mmap
import os
import stat
import sys
import tempfile
import uuid
from contextlib import suppress
from functools import cache
from pathlib import Path

FOLDER, FILE = 0o700, 0o600
_OTHERS, _OTHERS_WRITE = 0o077, 0o022


def fault(folder: Path) -> str | None:
    """Why a folder is not private, as the end of a sentence; None if it is."""
    try:
        facts = folder.lstat()
    except OSError as error:
        return f"cannot be used ({error.strerror})"
    if stat.S_ISLNK(facts.st_mode):
        return "is a symbolic link"
    if not stat.S_ISDIR(facts.st_mode):
        return "is not a folder"
    return _fault_of(facts)


def claim(folder: Path) -> Path:
    """Create a private folder, or accept an existing one; PermissionError if it is not private.

    A folder of this user that others can only read becomes unreadable for them.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(FOLDER)
    if reason := fault(folder):
        raise PermissionError(f"{folder} {reason}")
    if stat.S_IMODE(folder.lstat().st_mode) & (_OTHERS | FOLDER) != FOLDER:
        folder.chmod(FOLDER)
    return folder


def own_folder(folder: Path) -> Path:
    """A private folder: this one, or if it is not private, another beside it.

    The other one has a name that cannot be guessed, and later processes find it again.
    """
    try:
        return claim(folder)
    except PermissionError as error:
        reason = str(error)
    others = sorted(folder.parent.glob(f"{folder.name}-*"))
    usable = next((other for other in others if fault(other) is None), None)
    own = usable or Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))
    say(f"{reason}; using {own} instead")
    return claim(own)


def write_file(path: Path, data: bytes | memoryview) -> None:
    """Write a file as a whole, or not at all, into a private folder."""
    part = path.with_name(f"{path.stem}.{uuid.uuid4().hex}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), FILE)
            file.write(data)
        part.rename(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def map_file(path: Path) -> mmap.mmap:
    """Map a file for reading; OSError if it is missing, empty, a link, or not private."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or not facts.st_size:
            raise PermissionError(f"{path} is not a file with content")
        if reason := _fault_of(facts):
            raise PermissionError(f"{path} {reason}")
        return mmap.mmap(descriptor, facts.st_size, access=mmap.ACCESS_READ)
    finally:
        os.close(descriptor)


@cache
def say(line: str) -> None:
    """Print a line once per process."""
    print(f"thetastream: {line}", file=sys.stderr)


def _fault_of(facts: os.stat_result) -> str | None:
    if facts.st_uid != os.geteuid():
        return f"belongs to user {facts.st_uid}, not to user {os.geteuid()}"
    if facts.st_mode & _OTHERS_WRITE:
        return f"can be written by other users (mode {stat.S_IMODE(facts.st_mode):04o})"
    return None
