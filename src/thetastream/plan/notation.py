"""Tactics as text: ``spo-join/per-term(intersect=hash, options.slots=16)``.

    tactic      name, or name(key=value, …)
    name        parts between strokes: panjoin/bi-sort, ordered/ptwi/b-tree
    key         a word; words with dots between them are entries of a mapping
    value       a whole number, a decimal number, true, false, none, a word, "text", or several of
                these in parentheses

Words need quotes only if they would be read as something else. ``written`` returns a form that
``read`` accepts, with keys in alphabetical order, so equal tactics have equal texts.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from thetastream.errors import RegistryError

_TOKEN = re.compile(
    r"""\s*(?:(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?P<word>[^\s,()='"]+)|(?P<mark>[,()=]))""",
    re.DOTALL,
)
_WHOLE = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_PART = re.compile(r"[\w+.-]+")
_WORD = re.compile(r"[^\s,()='\"\\]+")
_NAMED = {"true": True, "false": False, "none": None}


# --- Values --------------------------------------------------------------------------------------


def plain(key: str, value: Any) -> Any:
    """A parameter's value as a plain, immutable one; RegistryError if it has no text form."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real) and math.isfinite(value):
        return float(value)
    if isinstance(value, Mapping):
        return _plain_mapping(key, value)
    if isinstance(value, Sequence):
        return tuple(_plain_item(key, item) for item in value)
    raise RegistryError(
        f"parameter {key} must be a finite number, True, False, None, text, a tuple of these or a "
        f"mapping; got {value!r}"
    )


def _plain_item(key: str, value: Any) -> Any:
    if isinstance(value, Mapping) or (isinstance(value, Sequence) and not isinstance(value, str)):
        raise RegistryError(f"parameter {key} must be a tuple of plain values; got {value!r} in it")
    return plain(key, value)


def _plain_mapping(key: str, value: Mapping[Any, Any]) -> dict[str, Any] | None:
    """A mapping as a plain one; None if it is empty."""
    for word in value:
        if not isinstance(word, str) or not word.isidentifier():
            raise RegistryError(f"parameter {key} must be a mapping from words; got {word!r} in it")
    return {word: plain(f"{key}.{word}", value[word]) for word in sorted(value)} or None


# --- Writing -------------------------------------------------------------------------------------


def written(name: str, parameters: Mapping[str, Any]) -> str:
    """The text of a tactic.

    >>> written("spo-join", {"elements": 8, "background": True})
    'spo-join(background=true, elements=8)'
    """
    pairs = [f"{key}={_value(value)}" for key, value in sorted(_flat(parameters, ""))]
    return f"{name}({', '.join(pairs)})" if pairs else name


def _flat(parameters: Mapping[str, Any], before: str) -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for word, value in parameters.items():
        if isinstance(value, Mapping):
            pairs += _flat(value, f"{before}{word}.")
        else:
            pairs.append((before + word, value))
    return pairs


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_value, value))})"
    if isinstance(value, str):
        bare = _WORD.fullmatch(value) and isinstance(_meant(value), str)
        return value if bare else repr(value)
    return str(value).lower() if value is None or isinstance(value, bool) else repr(value)


def _meant(word: str) -> Any:
    """The value of a word without quotes."""
    if word in _NAMED:
        return _NAMED[word]
    if _WHOLE.fullmatch(word):
        return int(word)
    if _DECIMAL.fullmatch(word) and math.isfinite(float(word)):
        return float(word)
    return word


# --- Reading -------------------------------------------------------------------------------------


def read(text: str) -> tuple[str, dict[str, Any]]:
    """Parse name and parameters of a tactic; an error points at the mistake.

    >>> read("ordered/ptwi/b-tree(background=false, options.node_bytes=256)")
    ('ordered/ptwi/b-tree', {'background': False, 'options': {'node_bytes': 256}})
    """
    return _Reader(text).tactic()


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str | None
    text: str
    start: int


class _Reader:
    """Reads a tactic from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._cut(text)
        self._at = 0

    def _cut(self, text: str) -> list[_Token]:
        tokens, at, end = [], 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None:  # only an open quote begins no token
                start = at + len(text[at:]) - len(text[at:].lstrip())
                raise self._error("this quote is not closed", _Token(None, text[start:end], start))
            kind = match.lastgroup or ""
            tokens.append(_Token(kind, match[kind], match.start(kind)))
            at = match.end()
        tokens.append(_Token(None, "", end))
        return tokens

    def tactic(self) -> tuple[str, dict[str, Any]]:
        name = self._name()
        parameters: dict[str, Any] = {}
        if self._taken("("):
            self._list(lambda: self._pair(parameters))
        if self._next.kind is not None:
            raise self._error("nothing may follow a tactic", self._next)
        return name, parameters

    def _name(self) -> str:
        token = self._word("the name of a tactic")
        start = token.start
        for part in token.text.split("/"):
            if not _PART.fullmatch(part):
                wrong = _Token("word", part, start)
                raise self._error("expected a name between strokes, such as pim-tree", wrong)
            start += len(part) + 1
        return token.text

    def _pair(self, parameters: dict[str, Any]) -> None:
        key = self._word("a parameter, as in depth=3")
        *outer, last = key.text.split(".")
        if not all(word.isidentifier() for word in (*outer, last)):
            raise self._error("expected a parameter's name", key)
        self._want("=", f"= after {key.text}")
        for word in outer:
            parameters = parameters.setdefault(word, {})
            if not isinstance(parameters, dict):
                raise self._error(f"{word} already has a value of its own", key)
        if last in parameters:
            raise self._error(f"{key.text} was given twice", key)
        parameters[last] = self._value(key.text)

    def _value(self, key: str) -> Any:
        if not self._taken("("):
            return self._scalar(key)
        return tuple(self._list(lambda: self._scalar(key)))

    def _list(self, read: Callable[[], Any]) -> list[Any]:
        """Read items up to the closing parenthesis."""
        items: list[Any] = []
        while not self._taken(")"):
            items.append(read())
            if not self._taken(","):
                self._want(")", "a comma or a closing parenthesis")
                break
        return items

    def _scalar(self, key: str) -> Any:
        token = self._next
        if token.kind not in ("word", "text"):
            raise self._error(f"expected a value for {key}", token)
        self._at += 1
        if token.kind == "word":
            return _meant(token.text)
        try:
            return ast.literal_eval(token.text)
        except (SyntaxError, ValueError):
            raise self._error("this text cannot be read", token) from None

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _taken(self, mark: str) -> bool:
        taken = self._next.kind == "mark" and self._next.text == mark
        self._at += taken
        return taken

    def _want(self, mark: str, what: str) -> None:
        if not self._taken(mark):
            raise self._error(f"expected {what}", self._next)

    def _word(self, what: str) -> _Token:
        token = self._next
        if token.kind != "word":
            raise self._error(f"expected {what}", token)
        self._at += 1
        return token

    def _error(self, message: str, token: _Token) -> RegistryError:
        ends = token.start >= len(self._text.rstrip())
        came = f"; got {token.text!r}" if token.text else "; the text ends there" if ends else ""
        marks = " " * token.start + "^" * max(1, len(token.text))
        shown = "" if "\n" in self._text else f"\n  {self._text}\n  {marks}"
        return RegistryError(f"tactic {self._text!r}: {message}{came}{shown}")
