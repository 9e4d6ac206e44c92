"""Parameters of structures at random: small ones, so that rare paths are common.

    @given(parameters_of("pim-tree"), scenarios())
    def test_exact(parameters, scenario):
        tactic = ts.Tactic("pim-tree", **parameters)

Any subset of a structure's parameters is drawn; the others keep their defaults.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from thetastream.index.registry import parameters

Values = st.SearchStrategy[Any]


def _domain() -> Values:
    edges = st.tuples(st.integers(-20, 20), st.integers(1, 40))
    return st.one_of(st.none(), edges.map(lambda edge: (edge[0], edge[0] + edge[1])))


_WORDS: dict[str, Values] = {
    "background": st.booleans(),
    "buffer": st.integers(1, 8),
    "container": st.integers(1, 8),
    "depth": st.integers(-1, 3),
    "domain": _domain(),
    "elements": st.integers(0, 4),
    "fanout": st.integers(3, 8),
    "full": st.integers(32, 256),
    "immutable": st.booleans(),
    "inside": st.sampled_from(["auto", "bi-sort", "rap-table", "wib-tree", "nested-loop"]),
    "intersect": st.sampled_from(["bits", "prefixes", "hash"]),
    "keys": st.integers(2, 16),
    "leaf": st.integers(1, 8),
    "length": st.integers(2, 5),
    "linear": st.integers(2, 8),
    "memory": st.integers(1, 3),
    "merge_ratio": st.sampled_from([2.0**-20, 0.01, 1 / 16, 0.5, 1, 2.5]),
    "node_bytes": st.integers(192, 512),
    "partitions": st.integers(1, 5),
    "probing": st.sampled_from(["auto", "scan", "sweep", "fill"]),
    "ratio": st.integers(1, 8),
    "run": st.integers(2, 64),
    "run_fanout": st.integers(2, 8),
    "sigma": st.sampled_from([1.01, 1.25, 3]),
    "slide": st.integers(0, 8),
    "slot": st.integers(1, 8),
    "slots": st.integers(2, 8),
    "sorted_leaves": st.booleans(),
    "stride": st.integers(0, 20),
    "subwindows": st.integers(1, 5),
    "threads": st.integers(1, 2),
    "workers": st.integers(1, 3),
}
_OWN: dict[tuple[str, str], Values] = {
    ("optimistic-tree", "fanout"): st.integers(4, 8),
    ("po-join", "ratio"): st.integers(0, 8),
    ("spo-join", "ratio"): st.integers(0, 8),
}
"""Where a structure takes other values than the rest."""
_INNER = {
    "incremental": ("b-tree", "csb+tree", "burst-trie", "radix-trie"),
    "per-term": ("b+tree", "css-tree", "chained", "sorted-runs"),
    "ptwi": ("radix-trie", "b-tree", "b+tree", "sorted-runs", "bi-sort"),
}


def drawable(name: str) -> list[str]:
    """The parameters of a structure that ``parameters_of`` draws."""
    inside = ("inner", "options") if name in _INNER else ()
    return [word for word in parameters(name) if word in _WORDS or word in inside]


def parameters_of(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Some parameters of a structure, with values that it takes."""
    plain = {w: _OWN.get((name, w), _WORDS[w]) for w in parameters(name) if w in _WORDS}
    drawn = st.fixed_dictionaries({}, optional=plain)
    return drawn if name not in _INNER else drawn.flatmap(lambda outer: _with_inner(name, outer))


def _with_inner(name: str, outer: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """The same, with a structure inside and parameters of that."""
    return st.sampled_from(_INNER[name]).flatmap(
        lambda inner: parameters_of(inner).map(
            lambda options: {**outer, "inner": inner, "options": options or None}
        )
    )
