"""Loops of PanJoin: BI-Sort, linked arrays, the RaP-Table, the WiB⁺-Tree."""
