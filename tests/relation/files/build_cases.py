"""What tests of building share: a small table, and a build that is checked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa

import thetastream as ts

SMALL = pa.table({"k": [5, 1, 3, 1, 9], "v": ["a", "b", "c", "d", "e"]})


def built(folder: str | Path, source: Any, key: Any, **more: Any) -> ts.Relation:
    relation = ts.Relation.build(Path(folder) / "r.rel", source, key, replace=True, **more)
    relation.check()
    left = {name.split("-")[0] for name in os.listdir(relation.path)}
    assert left == {"CURRENT", "LOCK", "READERS", "blocks", "index"}
    return relation
