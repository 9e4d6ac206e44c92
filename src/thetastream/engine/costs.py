"""What a condition costs, before anything runs: which parts an index serves, which are checked."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from thetastream.boxes.binding import Binding, as_expression, bind
from thetastream.condition.advice import advise
from thetastream.condition.expression import Call, Expression
from thetastream.condition.normalize import implied_terms
from thetastream.condition.predicate import Predicate
from thetastream.condition.term import Term
from thetastream.errors import OptionError
from thetastream.plan.explanation import Explanation
from thetastream.schema import KeyKind
from thetastream.side import Side

NESTED = "a nested loop: every row is compared with all rows of the window"
_VERIFIED = ", and compared here"  # ends what is said of a check that follows an index
_TEXT = (KeyKind.BYTES, KeyKind.PREFIX)


def explain(
    on: str | Predicate | Expression,
    left_schema: pa.Schema | None = None,
    right_schema: pa.Schema | None = None,
) -> Explanation:
    """Say which parts of a condition are indexed, and which are checked on candidates.

    Says how to write the latter so that an index serves them. Nothing is joined. Schemas are those
    of Arrow, or tables that have one; with them, columns and types are checked too.

    >>> print(explain("abs(l.x - r.x) <= 1 AND l.s LIKE r.p"))
    candidates: an index finds them
    indexed:
      l.x - r.x >= -1 AND l.x - r.x <= 1
      STARTSWITH(l.s, LITERAL_PREFIX(r.p))
    checked on candidates: l.s LIKE r.p: found by the text in front of wildcards, and compared here
    checked on single rows: none
    """
    predicate = Predicate.of(on)
    left, right = _schema(left_schema), _schema(right_schema)
    if left is None and right is None:
        return Explanation.of(parts(predicate, None), verbose=True)
    if left is None or right is None:
        raise OptionError("explain takes the schemas of both sides, or none")
    binding = bind(predicate, None, {Side.LEFT: left, Side.RIGHT: right})
    return Explanation.of(parts(predicate, binding), verbose=True)


def parts(predicate: Predicate, binding: Binding | None) -> dict[str, Any]:
    """The parts of a condition by how they are answered, and advice for those that cost most."""
    terms = [bound.term for bound in binding.terms] if binding is not None else predicate.terms
    residuals = predicate.residuals if binding is None else binding.residuals
    bound = () if binding is None else binding.terms
    texts = {str(as_expression(b.term)) for b in bound if b.domain.kind in _TEXT}
    checked: dict[str, Any] = {}
    for node in residuals:
        if str(node) in texts:
            checked[str(node)] = "strings are found by hash or prefix" + _VERIFIED
        elif found := [term for term in implied_terms(node) if term in terms]:
            checked[str(node)] = f"found {_how(found[0])}{_VERIFIED}"
        else:
            checked[str(node)] = advise(node)
    return {
        "candidates": "an index finds them" if terms else NESTED,
        "indexed": [str(term) for term in terms],
        "checked on candidates": checked or "none",
        "checked on single rows": [str(f) for side in Side for f in predicate.filters(side)],
    }


def is_costly(checked: object) -> bool:
    """Whether something is computed for candidates that no index has found by it."""
    return not isinstance(checked, dict) or not all(
        how.endswith(_VERIFIED) for how in checked.values()
    )


def _how(term: Term) -> str:
    """How a term finds the candidates of a residual that implies it."""
    if term.has_prefixes:
        return "by the text in front of wildcards"
    nodes = [n for n in (term.left, term.right) if isinstance(n, Call) and n.function.implies]
    own, width = nodes[0].args
    return f"by an interval around {own}, as wide as {width} to either side"


def _schema(given: Any) -> pa.Schema | None:
    schema = getattr(given, "schema", given)
    if schema is not None and not isinstance(schema, pa.Schema):
        raise OptionError(
            f"a schema must be an Arrow schema or a table; got {type(given).__name__}"
        )
    return schema
