"""Edits of one tool definition that keep all other members byte for byte.

Pure module, called when a snapshot is built. Only the name, the description and `_meta` are ever replaced: a rewritten
schema or annotation would make clients validate against something that the server did not send.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Raw

_members = msgspec.json.Decoder(dict[str, Raw]).decode
_encode = msgspec.json.Encoder().encode


class UnusableDefinition(ValueError):
    """Bytes that are not a JSON object in UTF-8, which no tool list can hold."""


def with_name(definition: bytes, *, name: str, description: str | None = None) -> bytes:
    """The definition with another name, and with another description if one is given.

    The values of all other members are kept byte for byte, in their order; white space between members is not kept.
    Raises UnusableDefinition.
    """
    members = _decode_members(definition)
    members["name"] = Raw(_encode(name))
    if description is not None:
        members["description"] = Raw(_encode(description))
    return _encode(members)


def ensure_name(definition: bytes, *, name: str) -> bytes:
    """The server's bytes, or the definition with `name` if the server has another name for it.

    Raises UnusableDefinition.
    """
    members = _decode_members(definition)
    if "name" not in members or _name(members["name"]) != name:
        return with_name(definition, name=name)
    return definition


def with_meta(definition: bytes, members: Mapping[str, Raw]) -> bytes:
    """The definition with `members` added to its `_meta` or replaced there. A definition whose `_meta` is not an object
    is returned unchanged. Raises UnusableDefinition.
    """
    definition_members = _decode_members(definition)
    try:
        meta = _members(definition_members.get("_meta", Raw(b"{}")))
    except msgspec.DecodeError:
        return definition
    definition_members["_meta"] = Raw(_encode({**meta, **members}))
    return _encode(definition_members)


def check_is_object(definition: bytes) -> bytes:
    """The server's bytes, checked to be a JSON object. Raises UnusableDefinition."""
    _decode_members(definition)
    return definition


class _Annotations(msgspec.Struct):
    idempotent: object = msgspec.field(name="idempotentHint", default=None)
    read_only: object = msgspec.field(name="readOnlyHint", default=None)


class _Annotated(msgspec.Struct):
    annotations: _Annotations | None = None


_decode_annotations = msgspec.json.Decoder(_Annotated).decode


def is_idempotent(definition: bytes, *, declared: bool | None, trusted: bool) -> bool:
    """Whether a tool can be called twice with the effect of one call. `declared` decides if it is set, otherwise the
    tool's `idempotentHint` or `readOnlyHint` if the server is `trusted`.
    """
    if declared is not None or not trusted or b'Hint"' not in definition:
        return bool(declared)
    try:
        hints = _decode_annotations(definition).annotations
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return hints is not None and (hints.idempotent is True or hints.read_only is True)


def _decode_members(definition: bytes) -> dict[str, Raw]:
    try:
        definition.decode()
        return _members(definition)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnusableDefinition(f"the definition is not a JSON object: {error}") from error


def _name(raw: Raw) -> str | None:
    try:
        return msgspec.json.decode(raw, type=str)
    except msgspec.DecodeError:
        return None
