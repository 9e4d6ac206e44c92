"""The demo's Spark session: Java is checked, logs go to a file, Ctrl-C is handled between calls."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from thetastream.errors import StateError
from thetastream.spark.session import configure

JAVA = 17


def check_java() -> None:
    """Refuse to start without a Java that runs Spark."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    advice = "install one (on Debian: openjdk-17-jre-headless), or name one in JAVA_HOME"
    try:
        if java is None:
            raise FileNotFoundError
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError):
        where = f"JAVA_HOME is {home!r}" if home else "there is no java on PATH"
        raise StateError(f"Spark needs Java {JAVA} or later, and {where}; {advice}") from None
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    if version is not None and int(version[1]) < JAVA:
        raise StateError(f"Spark needs Java {JAVA} or later; {java} is Java {version[1]}; {advice}")


@contextmanager
def session(folder: Path) -> Iterator[SparkSession]:
    """A session on all cores of this machine; Java logs to ``spark.log``.

    Spark and its workers write only to the folder.
    """
    check_java()
    variables = {"THETASTREAM_RUNS": str(folder / "runs")}
    if "SPARK_LOCAL_IP" not in os.environ:
        variables["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.streaming.checkpointLocation": str(folder / "checkpoint"),
        "spark.sql.session.timeZone": "UTC",
    }
    builder = SparkSession.builder.master("local[*]").appName("thetastream demo")
    builder = configure(builder, local_checkpoints=True)
    for name, value in settings.items():
        builder = builder.config(name, value)
    os.environ.update(variables)
    try:
        with _stderr_to(folder / "spark.log"), _own_interrupts():
            spark = builder.getOrCreate()
        try:
            spark.sparkContext.setLogLevel("ERROR")
            yield spark
        finally:
            spark.stop()
    finally:
        for name in variables:
            os.environ.pop(name, None)


class Interrupt:
    """Defers a Ctrl-C until ``check``: during a call to Java it would break the connection.

    A second one is raised at once.
    """

    def __init__(self) -> None:
        self._caught = False

    def __enter__(self) -> Interrupt:
        self._before = signal.signal(signal.SIGINT, self._catch)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _catch(self, *_: object) -> None:
        if self._caught:
            raise KeyboardInterrupt
        self._caught = True

    def check(self) -> None:
        """Raise the deferred interrupt, if there was one."""
        if self._caught:
            raise KeyboardInterrupt


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Restore the handler of Ctrl-C: Spark's own calls Java, whatever is running."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Processes started meanwhile, here the JVM, write their errors to the file."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with path.open("ab") as log:
            os.dup2(log.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
