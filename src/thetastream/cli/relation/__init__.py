"""``thetastream relation``: the verbs for a table on disk that streams are joined with.

``build``, ``join``, ``info``, ``change`` and ``calibrate`` hold the verbs, which are registered
here; ``pipe`` reads standard input and writes standard output.
"""

from __future__ import annotations

import typer

from thetastream.cli.relation import build, calibrate, change, info, join

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
group.command(epilog=build.EPILOG)(build.build)
group.command(epilog=join.EPILOG)(join.join)
group.command()(info.info)
group.command()(info.diff)
group.command()(info.check)
group.command(epilog=change.INSERT_EPILOG)(change.insert)
group.command(epilog=change.UPDATE_EPILOG)(change.update)
group.command(epilog=change.DELETE_EPILOG)(change.delete)
group.command()(info.compact)
group.command(epilog=calibrate.EPILOG)(calibrate.calibrate)
