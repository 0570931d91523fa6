"""Media types of bodies and answers, and which of several is used. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

BodyKind = Literal["json", "form", "multipart", "text", "binary", "other text", "unsupported"]
FORM: Final = "application/x-www-form-urlencoded"
MULTIPART: Final = "multipart/form-data"
JSON: Final = "application/json"
_JSON_PATCH: Final = "application/json-patch+json"
"""List of operations on a document (RFC 6902). APIs that also accept a partial object declare one schema for all types:
the object's.
"""
_ANY: Final = ("*/*", "application/*")
_STRUCTURED_TEXT: Final = ("xml", "yaml", "x-yaml", "x-ndjson", "ndjson", "jsonl", "jsonlines", "javascript", "graphql")
"""Subtypes of `application` that are text. Names with `+xml` and `+yaml` are too."""
_ORDER: Final[tuple[BodyKind, ...]] = ("json", "form", "multipart", "text", "binary", "other text", "unsupported")


def essence(media_type: str) -> str:
    """Type and subtype in lower case, without parameters (RFC 9110, section 8.3.1)."""
    return media_type.partition(";")[0].strip().lower()


def is_json(media_type: str) -> bool:
    """Whether values of the type are JSON, as values without a type are (RFC 6839, section 3.1, for `+json`)."""
    name = essence(media_type)
    return name in ("", JSON, "text/json", *_ANY) or name.endswith(("/json", "+json"))


def is_header_value(media_type: str) -> bool:
    """Whether the type can be the value of a header."""
    return media_type.isascii() and (media_type.isprintable() or not media_type)


def kind_of(media_type: str) -> BodyKind:
    """How a body of the type is made."""
    name = essence(media_type)
    main, _, subtype = name.partition("/")
    if not is_header_value(media_type):
        return "unsupported"
    if is_json(name):
        return "json"
    if name == FORM:
        return "form"
    if main == "multipart":
        return "multipart" if name == MULTIPART else "unsupported"
    if subtype in _STRUCTURED_TEXT or subtype.endswith(("+xml", "+yaml")):
        return "other text"
    if main == "text":
        return "text"
    return "binary" if subtype else "unsupported"


def choose(media_types: Iterable[str]) -> str | None:
    """Choose the media type whose bodies lose least: JSON, then forms, text, bytes. Exact names are preferred to ranges
    and variants, and other JSON to JSON Patch.
    """
    return min(media_types, key=_rank, default=None)


def sendable_type(media_type: str) -> str:
    """The media type of a request's body: a range becomes JSON, `text/*` plain text, any other bytes."""
    name = essence(media_type)
    if not name or name in _ANY:
        return JSON
    if name == "text/*":
        return "text/plain"
    return "application/octet-stream" if "*" in name else media_type.strip()


def _rank(media_type: str) -> tuple[int, bool, bool, bool]:
    name = essence(media_type)
    return _ORDER.index(kind_of(media_type)), name != JSON, "*" in name, name == _JSON_PATCH
