"""How to write what no index serves, so that one does."""

from __future__ import annotations

from thetastream.condition.custom import Custom
from thetastream.condition.expression import Call, Expression, Function
from thetastream.side import Side

_IMPLIED = (
    "add a comparison of one expression per side that it implies, such as a band: it finds the "
    "candidates, and this part is checked on those only"
)


def advise(node: Expression) -> str:
    """What to write instead of a residual, or beside it.

    >>> from thetastream.condition.sql import parse
    >>> advise(parse("abs(l.x - r.x) <= l.w"))
    'write r.x BETWEEN l.x - (l.w) AND l.x + (l.w), which is indexed'
    """
    if isinstance(node, Custom) or not isinstance(node, Call):
        return _IMPLIED
    if node.function is Function.OR:
        return (
            "the parts of this OR compare different expressions; join once per part and unite the "
            "results, or " + _IMPLIED
        )
    if node.function is Function.LIKE:
        return _IMPLIED
    if not node.function.compares:
        return _IMPLIED
    small, large = node.args
    if node.function in (Function.GE, Function.GT):
        small, large = large, small
    if isinstance(small, Call) and isinstance(large, Expression):
        return _of_size(small, large) or _of_ratio(small, large) or _IMPLIED
    return _IMPLIED


def _of_size(small: Call, large: Expression) -> str:
    """``abs(l.x - r.x) <= width``; the width reads one side, but is not a share of its value."""
    if small.function is not Function.ABS or len(large.sides()) != 1:
        return ""
    inner = small.args[0]
    plain = isinstance(inner, Call) and inner.function is Function.SUB
    if not isinstance(inner, Call) or not plain or any(len(a.sides()) != 1 for a in inner.args):
        return ""
    (side,) = large.sides()
    parts = {of: arg for arg in inner.args for of in arg.sides()}
    if len(parts) < len(Side):
        return ""
    own, other = parts[side], parts[side.other]
    return f"write {other} BETWEEN {own} - ({large}) AND {own} + ({large}), which is indexed"


def _of_ratio(small: Call, large: Expression) -> str:
    """A quotient over both sides against a constant."""
    if small.function is Function.ABS and isinstance(small.args[0], Call):
        small = small.args[0]
    if small.function is not Function.DIV or large.sides():
        return ""
    return (
        "compare with a product instead of a quotient, as abs(l.x - r.x) <= 0.01 * l.x, which is "
        "indexed"
    )
