"""When one key column decides every pair, so that counts and ranges need no pairs."""

from __future__ import annotations

from thetastream.boxes.binding import Binding
from thetastream.boxes.field import BoundTerm, Field
from thetastream.condition.expression import Function
from thetastream.condition.predicate import Predicate
from thetastream.condition.term import Compare, Term
from thetastream.errors import OptionError, PredicateError
from thetastream.index.registry import names, structure
from thetastream.plan.tactic import Tactic
from thetastream.side import Side
from thetastream.window import Window

_INSTEAD = "use output='count' or output='pairs'"


def settled(binding: Binding) -> bool:
    """Whether one key column decides every pair, whichever side is stored."""
    return not binding.residuals and all(len(binding.fields(side)) == 1 for side in Side)


def opposite(field: Field) -> BoundTerm | None:
    """The equality that a field of one plain ``<>`` negates; None for any other field."""
    if len(field.members) != 1:
        return None
    (bound,) = field.terms
    term = bound.term
    if len(term.arms) != 1 or len(term.arms[0]) != 1:
        return None
    (condition,) = term.arms[0]
    if not isinstance(condition, Compare) or condition.op is not Function.NE:
        return None
    equal = Compare(Function.EQ, condition.left_shift, condition.right_shift)
    return BoundTerm(Term(term.left, term.right, ((equal,),)), bound.domain)


# --- When ranges are exact ---------------------------------------------------------------------


def refuse_ranges(
    predicate: Predicate, window: Window, tactic: Tactic, *, self_join: bool, collects: bool
) -> None:
    """Raise for a join whose matches are not ranges, as far as known without the columns."""
    reason = ""
    if self_join:
        reason = "in a self-join a row meets only those before it, which are no range of keys"
    elif window.timed:
        reason = "a time window is a condition of its own, beside that of the predicate"
    elif window.order is not None:
        reason = "with ranks every row has its own part of the window"
    elif collects:
        reason = "when rows are collected, every row has its own part of the window"
    if reason:
        raise OptionError(f"output='ranges' cannot be exact here: {reason}; {_INSTEAD}")
    _check_predicate(predicate, bool(predicate.terms), bool(predicate.residuals))
    _check_tactic(tactic)


def check_ranges(binding: Binding) -> None:
    """PredicateError if more than the order of one key column decides a pair."""
    _check_predicate(binding.predicate, bool(binding.terms), bool(binding.residuals))
    for side in Side:
        fields = binding.fields(side)
        if len(fields) > 1:
            raise PredicateError(
                "output='ranges' needs a predicate that compares one expression per side; of the "
                f"{side.value} side this one compares {len(fields)}: "
                f"{', '.join(str(f.terms[0].term.expression(side)) for f in fields)}; {_INSTEAD}",
                binding.predicate.text,
            )


def _check_predicate(predicate: Predicate, has_terms: bool, has_residuals: bool) -> None:
    if has_residuals or not has_terms:
        raise PredicateError(
            "output='ranges' needs a predicate that is decided by the order of one key, as = <> < "
            f"BETWEEN and bands over numbers and times are; {_INSTEAD}",
            predicate.text,
        )


def _check_tactic(tactic: Tactic) -> None:
    """The tactic must keep rows in key order, in arrays."""
    ordered = tactic.family.keeps_order
    if not ordered or not all(structure(name).ranged for name in tactic.structures):
        ranged = [f"'ordered/{name}'" for name in names() if structure(name).ranged]
        raise OptionError(
            "output='ranges' needs rows in sorted arrays, which "
            f"tactic={str(tactic)!r} does not keep; use tactic='auto' or one of "
            f"{', '.join(ranged)}, or {_INSTEAD[4:]}"
        )
