"""How a column of the result file is shown: its name in tables and plots, its unit, its digits."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MEASURES", "Measure"]


@dataclass(frozen=True)
class Measure:
    """A column, scaled."""

    title: str
    """With its unit."""
    factor: float = 1.0
    digits: int = 3
    """Significant digits."""

    def text(self, value: float) -> str:
        """Give a value; a dash for nothing.

        >>> MEASURES["tuples_per_s"].text(1_234_567.0), MEASURES["top_share"].text(0.0)
        ('1.23', '–')
        """
        if not value:
            return "–"
        shown = value * self.factor
        return f"{shown:,.0f}" if shown >= 10**self.digits else f"{shown:.{self.digits}g}"


MEASURES: dict[str, Measure] = {
    "tuples_per_s": Measure("million tuples per second", 1e-6),
    "bytes_per_row": Measure("bytes per row"),
    "merge_ms": Measure("milliseconds per merge"),
    "p50_us": Measure("p50, µs"),
    "p99_us": Measure("p99, µs"),
    "p999_us": Measure("p99.9, µs"),
    "top_share": Measure("inserts into the busiest subindex, %", 100),
    "idle_share": Measure("idle subindexes, %", 100),
    "ns_per_tuple": Measure("ns per tuple"),
    "predicted_ns": Measure("predicted"),
    "ns_descend": Measure("search, ns"),
    "ns_scan": Measure("scan, ns"),
    **{f"ns_{step}": Measure(f"{step}, ns") for step in ("search", "delete", "insert", "merge")},
    **{
        f"predicted_{step}": Measure(f"{step}, predicted")
        for step in ("search", "delete", "insert", "merge")
    },
}
"""Every column that some figure shows."""
