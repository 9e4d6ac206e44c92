"""Tables of facts, as text and HTML; and the objects that show themselves so."""

from __future__ import annotations

import pyarrow as pa

import thetastream as ts
from thetastream.display.facts import as_html, as_text


def test_text_is_aligned() -> None:
    assert as_text("t", {"a": 1234, "long": "x"}) == "t\n  a     1,234\n  long  x"
    assert as_text("t", {}) == "t"


def test_html_is_escaped() -> None:
    html = as_html("l.x < r.x", {"<b>": "a & b"})
    assert "l.x &lt; r.x" in html
    assert "&lt;b&gt;" in html
    assert "a &amp; b" in html


def test_joins_metrics_and_explanations_show_tables() -> None:
    join = ts.StreamJoin("l.x < r.x", window=ts.CountWindow(9), how="left")
    rows = pa.table({"x": [1, 2]})
    list(join.push(left=rows, right=rows))
    shown = repr(join)
    assert shown.startswith("StreamJoin on l.x < r.x\n")
    assert "count window of 9" in shown
    metrics = repr(join.metrics())
    assert "matches" in metrics
    assert "dropped" not in metrics, "zeros are left out"
    for value in (join, join.metrics(), join.explain()):
        assert value._repr_html_().startswith("<table>")
    assert join.explain().splitlines()[0] in repr(join.explain())
