"""Constraints in plain words, for a description that stands in for a keyword that the target does not hold.

Pure module. A sentence is short, for it is paid in tokens at every request, and
bounded, for its parts come from servers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

MAX_VALUE: Final = 200
"""Characters of one value within a sentence."""
MAX_SENTENCE: Final = 400

_encode = msgspec.json.Encoder().encode


def told(keyword: str, value: Any) -> str:
    """One sentence without a period that says what `keyword: value` demands."""
    teller = _TELLERS.get(keyword)
    sentence = teller(value) if teller else f"{keyword}: {shown(value)}"
    return sentence if len(sentence) <= MAX_SENTENCE else sentence[: MAX_SENTENCE - 1] + "…"


def with_notes(description: str | None, notes: list[str]) -> str:
    """A description with sentences appended."""
    added = " ".join(f"{note[:1].upper()}{note[1:].rstrip('.')}." for note in dict.fromkeys(notes))
    return joined(description or "", added)


def joined(text: str, sentences: str) -> str:
    """A description with sentences that are ready."""
    text = text.rstrip()
    if not text or not sentences:
        return text or sentences
    return f"{text} {sentences}" if text[-1] in ".!?:;。！？" else f"{text}. {sentences}"


def shown(value: Any) -> str:
    """A value as compact JSON, cut."""
    try:
        text = _encode(value).decode()
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        text = "…"
    return text if len(text) <= MAX_VALUE else text[: MAX_VALUE - 1] + "…"


def listed(values: Any) -> str:
    """`"a", "b" or 3`."""
    texts = [shown(value) for value in values[:40]] if isinstance(values, list) else [shown(values)]
    if len(texts) < 2:
        return "".join(texts) or "nothing"
    return f"{', '.join(texts[:-1])} or {texts[-1]}"


def phrase(schema: Any) -> str:
    """The demands of a schema, in a few words: `a string (at least 1 character)`."""
    if not isinstance(schema, dict):
        return "anything" if schema is True else "nothing"
    if "const" in schema:
        return shown(schema["const"])
    if isinstance(schema.get("enum"), list):
        return f"one of {listed(schema['enum'])}"
    kind = schema.get("type")
    noun = _noun(kind) if isinstance(kind, str) else " or ".join(_noun(k) for k in kind) if kind else ""
    rest = {k: v for k, v in schema.items() if k in _PHRASED}
    limits = "; ".join(told(keyword, value) for keyword, value in rest.items())
    if not noun and not limits:
        return shown(schema) if schema else "anything"
    return f"{noun or 'a value'} ({limits})" if limits else noun


def _noun(kind: Any) -> str:
    return {"object": "an object", "array": "an array", "integer": "an integer", "null": "null"}.get(kind, f"a {kind}")


def _count(what: str, least: bool) -> Callable[[Any], str]:
    side = "at least" if least else "at most"
    return lambda value: f"{side} {shown(value)} {what}{'' if value == 1 else 's'}"


def _patterns(value: Any) -> str:
    if not isinstance(value, dict):
        return shown(value)
    return "; ".join(f"properties that match {name}: {phrase(schema)}" for name, schema in value.items())


def _dependent(value: Any) -> str:
    if not isinstance(value, dict):
        return shown(value)
    parts = []
    for name, needed in value.items():
        ask = ", ".join(map(str, needed)) if isinstance(needed, list) else phrase(needed)
        parts.append(f"with {name} also {ask}")
    return "; ".join(parts)


def _tuple(value: Any) -> str:
    if not isinstance(value, list):
        return shown(value)
    return "items in order: " + ", ".join(phrase(item) for item in value[:20])


_PHRASED: Final = frozenset(
    {
        "minLength",
        "maxLength",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "pattern",
        "format",
        "minItems",
        "maxItems",
        "multipleOf",
        "uniqueItems",
    }
)

_TELLERS: Final[dict[str, Callable[[Any], str]]] = {
    "minLength": _count("character", True),
    "maxLength": _count("character", False),
    "minItems": _count("item", True),
    "maxItems": _count("item", False),
    "minProperties": lambda v: f"at least {shown(v)} propert{'y' if v == 1 else 'ies'}",
    "maxProperties": lambda v: f"at most {shown(v)} propert{'y' if v == 1 else 'ies'}",
    "minimum": lambda v: f"at least {shown(v)}",
    "maximum": lambda v: f"at most {shown(v)}",
    "exclusiveMinimum": lambda v: f"greater than {shown(v)}",
    "exclusiveMaximum": lambda v: f"less than {shown(v)}",
    "multipleOf": lambda v: f"a multiple of {shown(v)}",
    "pattern": lambda v: f"matches {v}" if isinstance(v, str) else shown(v),
    "format": lambda v: f"format {v}" if isinstance(v, str) else shown(v),
    "uniqueItems": lambda v: "no item twice",
    "enum": lambda v: f"one of {listed(v)}",
    "const": lambda v: f"always {shown(v)}",
    "default": lambda v: f"default {shown(v)}",
    "example": lambda v: f"for example {shown(v)}",
    "examples": lambda v: f"for example {listed(v)}",
    "deprecated": lambda v: "deprecated" if v is True else "",
    "not": lambda v: f"not {phrase(v)}",
    "required": lambda v: f"needs {', '.join(map(str, v))}" if isinstance(v, list) else shown(v),
    "contains": lambda v: f"contains {phrase(v)}",
    "propertyNames": lambda v: f"property names: {phrase(v)}",
    "patternProperties": _patterns,
    "additionalProperties": lambda v: f"other properties: {phrase(v)}",
    "dependentRequired": _dependent,
    "dependentSchemas": _dependent,
    "dependencies": _dependent,
    "prefixItems": _tuple,
    "if": lambda v: f"if {shown(v)}",
    "then": lambda v: f"then {shown(v)}",
    "else": lambda v: f"else {shown(v)}",
    "contentEncoding": lambda v: f"encoded as {v}",
    "contentMediaType": lambda v: f"content of type {v}",
    "description": str,
}
"""A teller that returns nothing says that the value demands nothing."""
