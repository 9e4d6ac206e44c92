"""What is done when a query with a join is started, and the checkpoint is known at last.

    joined = theta_join(…)          watch(joined, …): which join this is, and how it is checked
    joined.select(…).writeStream    a plan that still holds the node of the join's metrics
          .option(…).start()        found by that node: check the checkpoint, name the query

Spark learns the checkpoint at ``start()``. Without a check there, the state of another join would
be refused by a worker, when the first rows come, below a long traceback. PySpark has no hook for
it, so the first streaming join of a process wraps ``start`` and ``toTable`` of PySpark's
``DataStreamWriter``. A query without a join passes through unchanged, and so does everything under
Spark Connect; there, workers refuse.

A query without a name gets that of its join: Spark shows it as the description of jobs and stages.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from thetastream.errors import StateError

LOCATION = "spark.sql.streaming.checkpointLocation"
_NODE = re.compile(r"CollectMetrics thetastream-.*|CollectMetrics relation_join-.*")
_LIMIT = 256  # joins that are known in a process
_FORMAT, _QUERY_NAME = 1, 4  # places among the arguments of start and toTable


@dataclass(frozen=True)
class Watched:
    """A join whose queries are checked: ``check`` gets the checkpoint's location.

    ``folder`` holds the whole state of the join, if files do.
    """

    title: str | None
    check: Callable[[str], None] | None
    folder: str | None


_JOINS: OrderedDict[str, Watched] = OrderedDict()


def watch(
    joined: DataFrame,
    title: str | None,
    check: Callable[[str], None] | None = None,
    folder: str | None = None,
) -> None:
    """Check the queries of a join when they are started, and call them by ``title``."""
    nodes = _nodes(joined)
    if not nodes:
        return
    _JOINS[nodes[0]] = Watched(title, check, folder)
    while len(_JOINS) > _LIMIT:
        _JOINS.popitem(last=False)
    for name in ("start", "toTable"):
        method = getattr(DataStreamWriter, name)
        if not hasattr(method, "checks_joins"):
            setattr(DataStreamWriter, name, _checking(method))


def _checking(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def started(writer: Any, *given: Any, **options: Any) -> Any:
        joins = [_JOINS[node] for node in dict.fromkeys(_nodes(writer._df)) if node in _JOINS]
        if joins:
            _check_folders(joins)
            _prepare(writer, joins, given, options)
        return method(writer, *given, **options)

    started.checks_joins = True  # type: ignore[attr-defined]
    return started


def _nodes(frame: DataFrame) -> list[str]:
    """The nodes of joins in a plan, the last one first; none under Spark Connect.

    Their expressions have numbers that no other plan of the session has.
    """
    plan = getattr(frame, "_jdf", None)
    return [] if plan is None else _NODE.findall(plan.queryExecution().analyzed().toString())


def _check_folders(joins: Sequence[Watched]) -> None:
    """StateError if two joins of a query would write the same files."""
    folders = Counter(join.folder.rstrip("/") for join in joins if join.folder is not None)
    for folder, count in folders.items():
        if count > 1:
            raise StateError(
                f"{count} joins of this query have state_path={folder!r}, where each would replace "
                "the state of the others; give each join a folder of its own, such as "
                f"{folder + '/first'!r}"
            )


def _prepare(
    writer: Any, joins: Sequence[Watched], given: Sequence[Any], options: Mapping[str, Any]
) -> None:
    """Check the checkpoint, if it is known, and name the query, if nothing depends on that."""
    settings = _Settings(writer)
    name = settings.option("queryName")
    name = options.get("queryName") or (given[_QUERY_NAME] if len(given) > _QUERY_NAME else name)
    location = options.get("checkpointLocation") or settings.option("checkpointLocation")
    base = writer._df.sparkSession.conf.get(LOCATION, None)
    if location is None and base and name:
        location = f"{base}/{name}"
    if location is not None:
        for join in joins:
            if join.check is not None:
                join.check(str(location))
    title = next((join.title for join in joins if join.title), None)
    sink = options.get("format") or (given[_FORMAT] if len(given) > _FORMAT else None)
    is_table = "memory" in (sink, settings.field("source"))  # the name is that of its table
    if title is None or name or is_table or (location is None and base):
        return
    taken = {query.name for query in writer._df.sparkSession.streams.active}
    if title not in taken:
        writer.queryName(title)


class _Settings:
    """What was set on a writer, which only its object in the JVM knows; None if it cannot be read.

    The fields are private, so another version of Spark may have others.
    """

    def __init__(self, writer: Any) -> None:
        self._java = writer._jwrite

    def field(self, name: str) -> Any:
        try:
            field = self._java.getClass().getDeclaredField(name)
            field.setAccessible(True)
            return field.get(self._java)
        except Exception:  # there is no such field
            return None

    def option(self, name: str) -> str | None:
        options = self.field("extraOptions")
        try:
            found = None if options is None else options.get(name)
            return str(found.get()) if found is not None and found.isDefined() else None
        except Exception:  # it is no map
            return None
