"""A PostgreSQL server of our own: made in a temporary folder, and gone afterwards whatever happens.

It listens on a socket in a folder, not on the network, and does not care for crashes (``fsync`` is
off). PostgreSQL refuses to run as root; then it runs as ``postgres`` or ``nobody``.

The server is the child of a shell that waits for its input to end. When this process closes that
pipe, or dies in any way, the shell stops the server and removes the folder.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from thetabench.contestant import Unavailable

_PROGRAMS = ("initdb", "postgres", "psql")
_PLACES = ("/usr/lib/postgresql", "/usr/local/pgsql", "/opt/homebrew/opt", "/usr")
_ACCOUNTS = ("postgres", "nobody")
_PATIENCE = 60.0
_GUARD = """
folder=$1; sockets=$2; shift 2
"$@" >"$folder/log" 2>&1 </dev/null &
server=$!
read -r line
kill -INT $server 2>/dev/null
wait $server
rm -rf -- "$folder" "$sockets" 2>/dev/null
"""


def programs() -> Path:
    """The folder with PostgreSQL's programs, the newest if there are several."""
    folders = [path.parent for place in _PLACES for path in Path(place).glob("*/bin/initdb")]
    folders.sort(key=lambda path: [int(number) for number in re.findall(r"\d+", str(path))])
    folders += [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep)]
    for folder in reversed(folders):
        if all((folder / name).exists() for name in _PROGRAMS):
            return folder
    raise Unavailable(
        "PostgreSQL is not installed: initdb, postgres and psql are neither in PATH nor below "
        f"{_PLACES[0]}; on Debian: apt-get install postgresql"
    )


class Server:
    """A running server; ``close`` stops it and removes its files."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        self._programs = programs()
        self._account = _account()
        self.folder = Path(tempfile.mkdtemp(prefix="postgresql-", dir=self._reachable(folder)))
        self._sockets = Path(tempfile.mkdtemp(prefix="thetastream-pg-"))  # paths must be short
        self._process: subprocess.Popen[bytes] | None = None
        try:
            log = self.folder / "log"
            log.touch()
            self._give(self.folder, self._sockets, log)
            self._initialise()
            self._start(settings)
        except BaseException:
            self.close()
            raise

    @property
    def running(self) -> bool:
        """Whether the server is there."""
        return self._process is not None and self._process.poll() is None

    def session(self) -> Session:
        """Open a connection."""
        return Session(self._programs / "psql", self._sockets)

    def close(self) -> None:
        """Stop the server; again is no error."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()
        for folder in (self.folder, self._sockets):
            shutil.rmtree(folder, ignore_errors=True)

    # --- Making it ------------------------------------------------------------------------------

    def _reachable(self, folder: Path) -> Path:
        """The folder, or the system's for temporary files if the server's account cannot enter."""
        folder = folder.resolve()
        if self._account is None:
            return folder
        owner = self._account.pw_uid
        for place in (folder, *folder.parents):
            facts = place.stat()
            if not facts.st_mode & (0o100 if facts.st_uid == owner else 0o001):
                return Path(tempfile.gettempdir())
        return folder

    def _give(self, *paths: Path) -> None:
        if self._account is not None:
            for path in paths:
                os.chown(path, self._account.pw_uid, self._account.pw_gid)

    def _identity(self) -> dict[str, Any]:
        """How processes are started: as whom, where, and out of reach of Ctrl-C."""
        common = {"cwd": self.folder, "start_new_session": True}
        if self._account is None:
            return common
        user, group = self._account.pw_uid, self._account.pw_gid
        return {**common, "user": user, "group": group, "extra_groups": []}

    def _initialise(self) -> None:
        command = [
            str(self._programs / "initdb"),
            *("-D", str(self.folder / "data"), "-U", "postgres", "-A", "trust"),
            *("--encoding", "UTF8", "--locale", "C", "--no-sync"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, **self._identity())
        if done.returncode:
            raise Unavailable(f"PostgreSQL cannot make a database: {done.stderr.strip()}")

    def _start(self, settings: dict[str, str]) -> None:
        all_settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self._sockets),
            "fsync": "off",
            "synchronous_commit": "off",
            "full_page_writes": "off",
            "autovacuum": "off",
            "wal_level": "minimal",
            "max_wal_senders": "0",
            "max_wal_size": "4GB",
            **settings,
        }
        command = [str(self._programs / "postgres"), "-D", str(self.folder / "data")]
        for name, value in all_settings.items():
            command += ["-c", f"{name}={value}"]
        guard = ["/bin/sh", "-c", _GUARD, "sh", str(self.folder), str(self._sockets), *command]
        self._process = subprocess.Popen(guard, stdin=subprocess.PIPE, **self._identity())
        self._await()

    def _await(self) -> None:
        """Wait until it answers."""
        end = time.monotonic() + _PATIENCE
        psql = [str(self._programs / "psql"), *_arguments(self._sockets), "-c", "SELECT 1"]
        while subprocess.run(psql, capture_output=True).returncode:
            log = (self.folder / "log").read_text(encoding="utf-8", errors="replace").strip()
            if ("FATAL" in log and "starting up" not in log) or time.monotonic() > end:
                raise Unavailable(f"PostgreSQL does not start: {log or 'no reason given'}")
            time.sleep(0.05)


def _account() -> pwd.struct_passwd | None:
    """As whom the server runs; None: as ourselves."""
    if os.getuid() != 0:
        return None
    for name in _ACCOUNTS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise Unavailable(
        "PostgreSQL refuses to run as root, and there is no account "
        f"{' or '.join(_ACCOUNTS)} to run it as; run the benchmark as another user"
    )


def _arguments(sockets: Path) -> list[str]:
    return ["-X", "-q", "-A", "-t", "-h", str(sockets), "-U", "postgres", "-d", "postgres"]


class Session:
    """A connection: ``psql`` that is asked through pipes. Temporary tables live as long as it."""

    _END = "--- end of answer ---"

    def __init__(self, psql: Path, sockets: Path) -> None:
        self._process = subprocess.Popen(
            [str(psql), *_arguments(sockets)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def ask(self, command: str) -> list[str]:
        """The lines of an answer, fields separated by ``|``; refuses what the server refuses."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n\\echo {self._END!r}\n")
        self._process.stdin.flush()
        lines: list[str] = []
        for line in self._process.stdout:
            if line.rstrip("\n") == self._END:
                break
            lines.append(line.rstrip("\n"))
        else:
            raise Unavailable(f"PostgreSQL has gone: {' '.join(lines) or 'no reason given'}")
        wrong = [line for line in lines if re.search(r"(ERROR|FATAL|PANIC):|^\\copy: ", line)]
        if wrong:
            raise Unavailable(f"PostgreSQL refuses {command[:200]!r}: {' '.join(lines)}")
        return lines

    def close(self) -> None:
        """End it, also in the middle of an answer."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                continue
