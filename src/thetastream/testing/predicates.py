"""Hypothesis strategies for predicates, as SQL text over given columns.

Every operator, strict and closed bands, BETWEEN both ways, shifts, ORs of bands, NOT, IN, linear
mixtures of both sides, computed expressions, filters and residuals; one to three conjuncts.
"""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st

from thetastream.condition.predicate import Predicate
from thetastream.errors import PredicateError
from thetastream.testing.kinds import Kind

Kinds = Mapping[str, tuple[Kind, Kind]]

OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
_FLOATING = ("float", "float32", "finite")
_TOO_WIDE = {"extreme", "decimal"}  # no 64-bit key holds both exactly

_PLAIN = ("{l} {op} {r}", "{r} {op} {l}", "NOT ({l} {op} {r})", "{l} IN ({r}, {r})")
_BANDS = (
    "abs({l} - {r}) {op} {c}",
    "{c} {op} abs({r} - {l})",
    "{l} {op} {r} + {c}",
    "{r} - {c} {op} {l}",
    "{c} + {l} {op} {r}",
    "{l} - {c} {op} {r} - {d}",
    "{l} - {r} {op} {c}",
    "{r} - {l} {op} -{c}",
    "{l} BETWEEN {r} - {c} AND {r} + {d}",
    "{r} BETWEEN {l} - {c} AND {l} + {d}",
    "{l} - {r} BETWEEN -{c} AND {d}",
    "NOT ({l} BETWEEN {r} - {c} AND {r} + {d})",
    "({l} >= {r} - {c} AND {l} < {r} + {d})",
    "({l} > {r} - {c} AND {l} != {r})",
    "(abs({l} - {r}) <= {c} OR {l} - {r} = {d})",
    "({l} = {r} OR {l} = {r} + {c} OR {l} < {r} - {d})",
    "({r} - {l} BETWEEN 0 AND {c} OR {r} - {l} > {d})",
    "{l} IN ({r}, {r} + {c}, {r} - {d})",
)
_COMPUTED = (
    "2 * {l} {op} {r} + {c}",
    "-{l} {op} {r}",
    "{l} + {r} {op} {c}",
    "-{l} - {r} {op} {c}",
    "{l} * 0.5 {op} {r}",
    "{l} / 2 {op} {r}",
    "abs({l}) {op} {r} + {c}",
    "{l} + 1 + {c} {op} {r}",
    "LEAST({l}, 1) {op} GREATEST({r}, 0)",
    "COALESCE({l}, 1) {op} {r}",
    "CASE WHEN {l} > 0 THEN {l} ELSE 1 END {op} {r}",
)
_REGROUPED = (  # floating sums differ in the last digit once they are regrouped
    "{l} - {r} + {c} {op} {d}",
    "{l} - {c} - {r} {op} {d} - {r}",
    "{l} - {r} + {l} {op} {r} - {c}",
)
_DRIVERS = ("{l} = {r}", "abs({l} - {r}) <= {c}", "{l} BETWEEN {r} - {c} AND {r} + {d}")
_WHOLE = ("{l} % 3 = {r} % 2", "{l} % 2 {op} {r}")
_RESIDUALS = (
    "({l} {op} {r} OR {l} IS NULL)",
    "({l} {op} {r} OR {r} > 0)",
    "COALESCE({l}, {r}) {op} 0",
    "LEAST({l}, {r}) {op} 0",
    "(CASE WHEN {l} < {r} THEN {l} ELSE {r} END) {op} 0",
)
_COMPUTED_RESIDUALS = (
    "{l} * {r} {op} {c}",
    "abs({l} - {r}) <= {l}",
    "({l} + {r}) * 2 {op} {l}",
    "({l} {op} {r} OR {l} + {r} = {c})",
    "NOT ({l} {op} {r} AND {r} > {c})",
    "{l} / {r} {op} 1",
)
_TEXT_RESIDUALS = (
    "{l} LIKE {r}",
    "({l} = {r} OR {l} IS NULL)",
    "LENGTH({l}) {op} LENGTH({r})",
    "CONCAT({l}, {r}) = 'aa'",
    "LOWER({l}) = LOWER({r})",
)
_FILTERS = ("{x} IS NOT NULL", "{x} IS NULL", "NOT ({x} IS NULL)")
_NUMBER_FILTERS = ("{x} {op} 0", "{x} {op} 0.5", "({x} > 0 OR {x} IS NULL)", "{x} IN (0, 1)")


def _filled(
    templates: tuple[str, ...], left: str, right: str, widths: tuple[str, ...]
) -> st.SearchStrategy[str]:
    width = st.sampled_from(widths or ("0",))

    def fill(parts: tuple[str, str, str, str]) -> str:
        template, op, c, d = parts
        return template.format(l=left, r=right, x=left, op=op, c=c, d=d)

    return st.tuples(st.sampled_from(templates), st.sampled_from(OPERATORS), width, width).map(fill)


def _pairs(kinds: Kinds) -> list[tuple[str, str, Kind, Kind]]:
    """Columns that can be compared: the left name, the right name and their kinds."""
    return [
        (f"l.{a}", f"r.{b}", left, right)
        for a, (left, _) in kinds.items()
        for b, (_, right) in kinds.items()
        if a == b or (left.family == right.family and {left.name, right.name} != _TOO_WIDE)
    ]


def terms(kinds: Kinds, *, regroup: bool = True) -> st.SearchStrategy[str]:
    """One conjunct that becomes a term. ``regroup=False``: only shapes that stay as written."""

    def of(pair: tuple[str, str, Kind, Kind]) -> st.SearchStrategy[str]:
        l, r, left, right = pair  # noqa: E741
        if left.family in ("string", "binary"):
            templates: tuple[str, ...] = ("{l} = {r}", "{r} != {l}", "NOT ({l} = {r})")
            return _filled((*templates, "{l} IN ({r}, {r})"), l, r, ())
        templates = _PLAIN + _BANDS
        if left.family != "number":
            templates = tuple(t for t in templates if "BETWEEN 0" not in t)
        if left.arithmetic and right.arithmetic:
            templates += _COMPUTED + (_REGROUPED if regroup else ())
            if not {left.name, right.name} & {*_FLOATING}:
                templates += _WHOLE
        text = _filled(templates, l, r, left.widths)
        if left.arithmetic and right.arithmetic:
            return text
        # abs(l - r) != c is a residual, and its subtraction may overflow
        return text.filter(lambda t: not ("abs" in t and "!=" in t))

    return st.sampled_from(_pairs(kinds)).flatmap(of)


def residuals(kinds: Kinds) -> st.SearchStrategy[str]:
    """One conjunct over both sides; most are residuals."""

    def of(pair: tuple[str, str, Kind, Kind]) -> st.SearchStrategy[str]:
        l, r, left, right = pair  # noqa: E741
        if left.family == "string":
            return _filled(_TEXT_RESIDUALS, l, r, ())
        if left.family == "binary":
            return _filled(("({l} = {r} OR {l} IS NULL)",), l, r, ())
        if left.family != "number" or "decimal" in (left.name, right.name):
            return _filled(("({l} = {r} OR {l} IS NULL)", "({l} > {r} OR {r} IS NULL)"), l, r, ())
        if left.arithmetic and right.arithmetic:
            return _filled(_RESIDUALS + _COMPUTED_RESIDUALS, l, r, left.widths)
        return _filled(_RESIDUALS, l, r, left.widths)

    return st.sampled_from(_pairs(kinds)).flatmap(of)


def filters(kinds: Kinds) -> st.SearchStrategy[str]:
    """One conjunct over one side."""

    def of(name: str) -> st.SearchStrategy[str]:
        left, right = kinds[name]
        sides = {f"l.{name}": left, f"r.{name}": right}
        return st.sampled_from(sorted(sides)).flatmap(
            lambda x: _filled(_FILTERS + (_NUMBER_FILTERS if sides[x].arithmetic else ()), x, x, ())
        )

    return st.sampled_from(sorted(kinds)).flatmap(of)


def conjuncts(kinds: Kinds, *, regroup: bool = True) -> st.SearchStrategy[str]:
    """A term (mostly), a residual or a filter."""
    term = terms(kinds, regroup=regroup)
    return st.one_of(term, term, term, residuals(kinds), filters(kinds))


def predicates(kinds: Kinds, *, regroup: bool = True) -> st.SearchStrategy[str]:
    """A predicate: a conjunct that uses both sides, and up to two more."""
    term = terms(kinds, regroup=regroup)
    first = st.one_of(term, term, residuals(kinds))
    rest = st.lists(conjuncts(kinds, regroup=regroup), max_size=2)
    text = st.tuples(first, rest).map(lambda parts: " AND ".join([parts[0], *parts[1]]))
    return text.filter(_is_accepted)


def conjunctions(kinds: Kinds) -> st.SearchStrategy[str]:
    """A plain term per column: equalities and bands first, then any operator."""

    def of(name: str) -> st.SearchStrategy[str]:
        kind = kinds[name][0]
        templates: tuple[str, ...] = ("{l} = {r}", "{l} != {r}")
        if kind.family not in ("string", "binary"):
            templates = (*_DRIVERS, *_DRIVERS, "{l} {op} {r}", "{l} < {r} + {c}")
        return _filled(templates, f"l.{name}", f"r.{name}", kind.widths)

    return st.tuples(*map(of, kinds)).map(" AND ".join).filter(_is_accepted)


def _is_accepted(text: str) -> bool:
    """Whether the predicate is not refused for an empty band."""
    try:
        Predicate.parse(text)
    except PredicateError as error:
        if "band is empty" not in str(error):
            raise
        return False
    return True
