"""English phrases for constraints that a target does not support, to be added to a description.

Pure module. Sentences are short because they cost tokens in every request, and of limited length because their parts
come from servers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

MAX_VALUE: Final = 200
"""Maximum number of characters of one value within a sentence."""
MAX_SENTENCE: Final = 400

_encode = msgspec.json.Encoder().encode


def describe(keyword: str, value: Any) -> str:
    """One sentence, without a period, that states the constraint `keyword: value`; empty if it constrains nothing."""
    phrase_value = _PHRASES.get(keyword)
    sentence = phrase_value(value) if phrase_value else f"{keyword}: {compact(value)}"
    return sentence if len(sentence) <= MAX_SENTENCE else sentence[: MAX_SENTENCE - 1] + "…"


def with_notes(description: str | None, notes: list[str]) -> str:
    """A description followed by sentences made of the notes."""
    sentences = " ".join(f"{note[:1].upper()}{note[1:].rstrip('.')}." for note in dict.fromkeys(notes))
    return append(description or "", sentences)


def append(text: str, sentences: str) -> str:
    """A description followed by complete sentences."""
    text = text.rstrip()
    if not text or not sentences:
        return text or sentences
    return f"{text} {sentences}" if text[-1] in ".!?:;。！？" else f"{text}. {sentences}"


def compact(value: Any) -> str:
    """A value as compact JSON, truncated to `MAX_VALUE` characters."""
    try:
        text = _encode(value).decode()
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        text = "…"
    return text if len(text) <= MAX_VALUE else text[: MAX_VALUE - 1] + "…"


def alternatives(values: Any) -> str:
    """A list of values as text, such as `"a", "b" or 3`."""
    texts = [compact(value) for value in values[:40]] if isinstance(values, list) else [compact(values)]
    if len(texts) < 2:
        return "".join(texts) or "nothing"
    return f"{', '.join(texts[:-1])} or {texts[-1]}"


def phrase(schema: Any) -> str:
    """The constraints of a schema in a few words, such as `a string (at least 1 character)`."""
    if not isinstance(schema, dict):
        return "anything" if schema is True else "nothing"
    if "const" in schema:
        return compact(schema["const"])
    if isinstance(schema.get("enum"), list):
        return f"one of {alternatives(schema['enum'])}"
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    noun = " or ".join(_noun(name) for name in kinds if isinstance(name, str))
    constraints = {k: v for k, v in schema.items() if k in _PHRASED_KEYWORDS}
    limits = "; ".join(describe(keyword, value) for keyword, value in constraints.items())
    if not noun and not limits:
        return compact(schema) if schema else "anything"
    return f"{noun or 'a value'} ({limits})" if limits else noun


def _noun(kind: Any) -> str:
    return {"object": "an object", "array": "an array", "integer": "an integer", "null": "null"}.get(kind, f"a {kind}")


def _count(noun: str, is_minimum: bool) -> Callable[[Any], str]:
    side = "at least" if is_minimum else "at most"
    return lambda value: f"{side} {compact(value)} {noun}{'' if value == 1 else 's'}"


def _patterns(value: Any) -> str:
    if not isinstance(value, dict):
        return compact(value)
    return "; ".join(f"properties that match {name}: {phrase(schema)}" for name, schema in value.items())


def _dependent(value: Any) -> str:
    if not isinstance(value, dict):
        return compact(value)
    parts = []
    for name, requirement in value.items():
        requirement_text = ", ".join(map(str, requirement)) if isinstance(requirement, list) else phrase(requirement)
        parts.append(f"with {name} also {requirement_text}")
    return "; ".join(parts)


def _tuple(value: Any) -> str:
    if not isinstance(value, list):
        return compact(value)
    return "items in order: " + ", ".join(phrase(item) for item in value[:20])


_PHRASED_KEYWORDS: Final = frozenset(
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

_PHRASES: Final[dict[str, Callable[[Any], str]]] = {
    "minLength": _count("character", True),
    "maxLength": _count("character", False),
    "minItems": _count("item", True),
    "maxItems": _count("item", False),
    "minProperties": lambda v: f"at least {compact(v)} propert{'y' if v == 1 else 'ies'}",
    "maxProperties": lambda v: f"at most {compact(v)} propert{'y' if v == 1 else 'ies'}",
    "minimum": lambda v: f"at least {compact(v)}",
    "maximum": lambda v: f"at most {compact(v)}",
    "exclusiveMinimum": lambda v: f"greater than {compact(v)}",
    "exclusiveMaximum": lambda v: f"less than {compact(v)}",
    "multipleOf": lambda v: f"a multiple of {compact(v)}",
    "pattern": lambda v: f"matches {v}" if isinstance(v, str) else compact(v),
    "format": lambda v: f"format {v}" if isinstance(v, str) else compact(v),
    "uniqueItems": lambda v: "no item twice",
    "enum": lambda v: f"one of {alternatives(v)}",
    "const": lambda v: f"always {compact(v)}",
    "default": lambda v: f"default {compact(v)}",
    "example": lambda v: f"for example {compact(v)}",
    "examples": lambda v: f"for example {alternatives(v)}",
    "deprecated": lambda v: "deprecated" if v is True else "",
    "not": lambda v: f"not {phrase(v)}",
    "required": lambda v: f"needs {', '.join(map(str, v))}" if isinstance(v, list) else compact(v),
    "contains": lambda v: f"contains {phrase(v)}",
    "propertyNames": lambda v: f"property names: {phrase(v)}",
    "patternProperties": _patterns,
    "additionalProperties": lambda v: f"other properties: {phrase(v)}",
    "dependentRequired": _dependent,
    "dependentSchemas": _dependent,
    "dependencies": _dependent,
    "prefixItems": _tuple,
    "if": lambda v: f"if {compact(v)}",
    "then": lambda v: f"then {compact(v)}",
    "else": lambda v: f"else {compact(v)}",
    "contentEncoding": lambda v: f"encoded as {v}",
    "contentMediaType": lambda v: f"content of type {v}",
    "description": str,
}
"""Functions that phrase the value of a keyword. They return empty text for a value that constrains nothing."""
