"""``thetastream relation``: the verbs for a table on disk that streams are joined with."""

from __future__ import annotations

import typer

from thetastream.cli.relation import build as relation_build
from thetastream.cli.relation import calibrate as relation_calibrate
from thetastream.cli.relation import change as relation_change
from thetastream.cli.relation import info as relation_info
from thetastream.cli.relation import join as relation_join

EPILOG = """\
Examples:

  thetastream relation build parts.parquet parts.rel --key part

  thetastream relation join sales.parquet parts.rel --on "l.part = r.part" --output enriched.parquet

  thetastream relation update parts.rel prices.csv --upsert
"""


group = typer.Typer(
    help="Join a stream with a table on disk that may be larger than memory.",
    epilog=EPILOG,
    no_args_is_help=True,
)
group.command(epilog=relation_build.EPILOG)(relation_build.build)
group.command(epilog=relation_join.EPILOG)(relation_join.join)
group.command()(relation_info.info)
group.command()(relation_info.check)
group.command(epilog=relation_change.INSERT_EPILOG)(relation_change.insert)
group.command(epilog=relation_change.UPDATE_EPILOG)(relation_change.update)
group.command(epilog=relation_change.DELETE_EPILOG)(relation_change.delete)
group.command()(relation_info.compact)
group.command(epilog=relation_calibrate.EPILOG)(relation_calibrate.calibrate)
