"""``thetastream demo``: trades × quotes, generated, joined and checked; on Spark, or embedded.

Both show progress, counters and a few result rows, and compare part of the answer with the
oracle's. A difference makes the exit code 1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thetastream.errors import OptionError


def demo(
    rows: Annotated[
        int | None,
        typer.Option(min=10, help="Rows of both streams. [400,000; embedded 2,000,000]"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the generated streams.")] = 0,
    folder: Annotated[
        Path | None,
        typer.Option(help="A new folder for inputs, results and logs; by default a temporary one."),
    ] = None,
    embedded: Annotated[
        bool, typer.Option("--embedded", help="In this process, without Spark.")
    ] = False,
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Join the rows again on hand-made buckets; on Spark."),
    ] = False,
    threads: Annotated[int, typer.Option(min=1, help="Threads for the probes; embedded.")] = 1,
) -> None:
    """Join two generated streams, trades and quotes, on Spark, and check the answer."""
    if embedded and compare:
        raise OptionError(
            "--compare runs Spark's own join beside theta_join, so it needs Spark; leave out "
            "--embedded or --compare"
        )
    if embedded:
        from thetastream.cli import demo_embedded

        agrees = demo_embedded.run_embedded(rows or demo_embedded.ROWS, threads, seed)
    else:
        from thetastream.cli import demo_spark

        agrees = demo_spark.run_on_spark(rows or demo_spark.ROWS, seed, folder, compare)
    if not agrees:
        raise typer.Exit(1)
