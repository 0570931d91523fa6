"""Repair of malformed tool results, so that clients that validate results accept what the server meant. No I/O.

The call has been executed whatever the shape of its result, so every result that is an object is repaired instead of
refused. Results that decode into `ResultMembers` never get here. Optional members that are null or of a wrong type are
removed. Content without a valid block (an unknown type, a bare value, a result without `content`) becomes a text block
of its JSON.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import Raw, UnsetType

from fairlead_mcp import content
from fairlead_mcp.errors import NotMcp
from fairlead_mcp.jsonrpc import UNSET, RawObject, decode_object, decode_result, decode_result_head, encode, excerpt

MOST_BLOCKS: Final = 1000
"""Blocks that are repaired one by one, 3 µs each; a longer list becomes one text block."""
MOST_COMMAS: Final = 200_000
"""Commas up to which a value is decoded: a list of 16 MiB can have 8 million elements, 80 bytes of memory each."""

Decode: TypeAlias = Callable[[bytes | Raw], Any]
"""Decodes a value. Raises one of jsonrpc.UNREADABLE."""
Mend: TypeAlias = Callable[[Raw], bytes | None]
"""Repairs a value; None if the member has to be removed."""

_COMPLETE: Final = b'"complete"'
_SPACES: Final = str.maketrans("", "", " \t\r\n")
_FALSE: Final = frozenset({"", "false", "no", "0"})
_MEDIA_TYPES: Final = {
    "image": {"iVBORw0K": "image/png", "/9j/": "image/jpeg", "R0lGOD": "image/gif", "UklGR": "image/webp"},
    "audio": {"UklGR": "audio/wav", "SUQz": "audio/mpeg", "T2dn": "audio/ogg"},
}
"""Media types by type of block and first characters of the base64 data."""
_ANY_MEDIA_TYPE: Final = "application/octet-stream"

_decode: Final = msgspec.json.Decoder().decode
_decode_list: Final = msgspec.json.Decoder(list[Raw]).decode
_decode_block: Final = msgspec.json.Decoder(content.Block).decode
_decode_head_member: Final = {
    "resultType": msgspec.json.Decoder(str).decode,
    "_meta": msgspec.json.Decoder(content.ResultMeta).decode,
}
_decode_meta_member: Final = {
    "progressToken": msgspec.json.Decoder(str | int).decode,
    "io.modelcontextprotocol/related-task": msgspec.json.Decoder(content.RelatedTask).decode,
    "io.modelcontextprotocol/serverInfo": msgspec.json.Decoder(content.Implementation).decode,
}
_decode_annotation: Final = {
    "audience": msgspec.json.Decoder(list[content.Role]).decode,
    "priority": msgspec.json.Decoder(content.Priority).decode,
    "lastModified": msgspec.json.Decoder(content.Time).decode,
}
_decode_icon: Final = msgspec.json.Decoder(content.Icon).decode
_decode_optional: Final = {
    "annotations": msgspec.json.Decoder(content.Annotations).decode,
    "_meta": msgspec.json.Decoder(content.AnyObject).decode,
    "title": msgspec.json.Decoder(str).decode,
    "description": msgspec.json.Decoder(str).decode,
    "mimeType": msgspec.json.Decoder(str).decode,
    "size": msgspec.json.Decoder(content.Size).decode,
    "icons": msgspec.json.Decoder(list[content.Icon]).decode,
    "text": msgspec.json.Decoder(str).decode,
    "blob": msgspec.json.Decoder(bytes).decode,
}
_decode_block_member: Final = {name: _decode_optional[name] for name in ("annotations", "_meta")}
_decode_contents_member: Final = {name: _decode_optional[name] for name in ("_meta", "mimeType", "text", "blob")}
_decode_link_member: Final = {name: decode for name, decode in _decode_optional.items() if name not in ("text", "blob")}


class _ResultParts(msgspec.Struct):
    _meta: Raw | UnsetType = UNSET
    resultType: Raw | UnsetType = UNSET  # noqa: N815 - members by MCP's names, which become those of an object
    content: Raw | UnsetType = UNSET
    structuredContent: Raw | UnsetType = UNSET  # noqa: N815
    isError: Raw | UnsetType = UNSET  # noqa: N815


_decode_parts: Final = msgspec.json.Decoder(_ResultParts).decode


class MendedResult(NamedTuple):
    """A result that conforms to the schema."""

    result: bytes
    left_out: bool
    """Whether `structuredContent` was removed because it is not an object."""


def conform(raw: Raw) -> bytes | Raw:
    """Return a tool's result that conforms to the schema of 2026-07-28, repaired if necessary.

    Raises one of jsonrpc.UNREADABLE for a result that is not an object.
    """
    try:
        if decode_result(raw).content is not UNSET:
            return raw
    except msgspec.ValidationError:
        pass
    return repair(raw, from_modern=True, any_structured=True).result


def repair(raw: bytes | Raw, *, from_modern: bool, any_structured: bool) -> MendedResult:
    """Repair a tool's result for the MCP revision of the client. `from_modern` says that the server is modern.

    `any_structured` says that the revision allows any JSON as structured content (2026-07-28 and later), not only an
    object. Raises one of jsonrpc.UNREADABLE for a result that is not an object.
    """
    members = _members(raw)
    _mend_head(members)
    if "isError" in members:
        members["isError"] = Raw(b"true" if _is_true(_value(members["isError"])) else b"false")
    structured_content = members.get("structuredContent")
    if structured_content is not None and bytes(structured_content) == b"null" and not (from_modern and any_structured):
        del members["structuredContent"]
        structured_content = None
    value = members.get("content")
    if value is not None and bytes(value) != b"null":
        members["content"] = Raw(_content(value))
    elif structured_content is not None:
        members["content"] = Raw(b"[%b]" % _json_as_text(structured_content))
    elif not from_modern or bytes(members.get("resultType", _COMPLETE)) == _COMPLETE:
        members["content"] = Raw(b"[%b]" % _json_as_text(raw))
    else:
        members.pop("content", None)
    left_out = False
    if structured_content is not None and not any_structured:
        if _is_empty_list(structured_content):
            members["structuredContent"] = Raw(b"{}")
        elif bytes(structured_content)[:1] != b"{":
            del members["structuredContent"]
            left_out = True
            if bytes(members["content"]) == b"[]":
                members["content"] = Raw(b"[%b]" % _json_as_text(structured_content))
    return MendedResult(encode(members), left_out)


def mend_head(raw: bytes | Raw) -> tuple[bytes | Raw, str]:
    """Repair `resultType` and `_meta`, which results of all methods have. Returns the result and the reason, which is
    empty if the result was valid.

    Raises one of jsonrpc.UNREADABLE for a result that is not an object, NotMcp for one that is too large.
    """
    try:
        decode_result_head(raw)
    except msgspec.ValidationError as error:
        if bytes(raw).count(b",") > MOST_COMMAS:
            raise NotMcp(f"the server's answer violates MCP and is too large to be repaired ({error})") from error
        members = decode_object(raw)
        _mend_head(members)
        members.pop("isError", None)
        return encode(members), excerpt(str(error).encode())
    return raw, ""


def _members(raw: bytes | Raw) -> RawObject:
    """Return the members of a result; if it has too many commas, only the members that MCP defines."""
    if bytes(raw).count(b",") <= MOST_COMMAS:
        return decode_object(raw)
    parts = msgspec.structs.asdict(_decode_parts(raw))
    return {name: value for name, value in parts.items() if value is not UNSET}


def _value(value: Raw) -> object:
    """Decode a value; None for a number out of Python's range."""
    try:
        return _decode(value)
    except msgspec.ValidationError:
        return None


def _mend_head(members: RawObject) -> None:
    _keep_valid(members, _decode_head_member, {"_meta": _meta})


def _meta(value: Raw) -> bytes | None:
    members = _object(value)
    if members is None:
        return None
    _keep_valid(members, _decode_meta_member, {})
    return encode(members)


def _is_true(value: object) -> bool:
    """Whether an `isError` of any type means true, as `"yes"`, 1 or a text of the error do."""
    return value.strip().lower() not in _FALSE if isinstance(value, str) else bool(value)


def _content(value: Raw) -> bytes:
    """Return the `content` of a result as a list of valid blocks."""
    first = bytes(value)[:1]
    if first != b"[":
        block = mend_block(value)
        return b"[]" if block is None else b"[%b]" % block
    items = elements(value)
    if len(items) > MOST_BLOCKS:
        return b"[%b]" % _json_as_text(value)
    blocks = [block for block in map(mend_block, items) if block is not None]
    return b"[%b]" % b",".join(blocks)


def elements(value: Raw) -> list[Raw]:
    """Return the elements of a list; the list itself as the only element if it has too many commas to decode."""
    return _decode_list(value) if bytes(value).count(b",") <= MOST_COMMAS else [value]


def mend_block(value: Raw) -> bytes | None:
    """Return a content block as valid JSON; None for null."""
    raw = bytes(value)
    if is_valid(_decode_block, value):
        return raw
    if raw == b"null":
        return None
    if raw[:1] == b'"':
        return b'{"type":"text","text":%b}' % raw
    members = _object(value)
    repaired = None if members is None else _repair_block(members)
    return _json_as_text(value) if repaired is None else repaired


def _repair_block(members: RawObject) -> bytes | None:
    """Repair a block of a type that MCP defines; None if a required member is missing."""
    kind = bytes(members.get("type", b"null")).decode()
    if kind == "null" and bytes(members.get("text", b""))[:1] == b'"':
        kind, members["type"] = '"text"', Raw(b'"text"')
    if kind == '"text"':
        _mend_text(members)
    elif kind in ('"image"', '"audio"'):
        _mend_media(members, kind.strip('"'))
    elif kind == '"resource_link"':
        if bytes(members.get("name", b""))[:1] != b'"' and "uri" in members:
            members["name"] = members["uri"]
    elif kind == '"resource"' and "resource" in members:
        members["resource"] = mend_contents(members["resource"])
    _keep_valid(members, _decode_link_member if kind == '"resource_link"' else _decode_block_member, _MENDS)
    repaired = encode(members)
    return repaired if is_valid(_decode_block, repaired) else None


def _mend_text(members: RawObject) -> None:
    text = members.get("text")
    if text is not None and bytes(text)[:1] != b'"':
        members["text"] = Raw(b'""' if bytes(text) == b"null" else encode(bytes(text).decode()))


def _mend_media(members: RawObject, kind: str) -> None:
    data = members.get("data")
    if data is None or bytes(data)[:1] != b'"':
        return
    text = str(_decode(data))
    head, comma, rest = text.partition(",")
    is_url = comma != "" and head.startswith("data:") and head.endswith(";base64")
    base64 = _base64(rest if is_url else text)
    if base64 is None:
        return
    members["data"] = Raw(encode(base64))
    if bytes(members.get("mimeType", b""))[:1] != b'"':
        detected_types = (media for start, media in _MEDIA_TYPES[kind].items() if base64.startswith(start))
        declared_type = head.removeprefix("data:").partition(";")[0] if is_url else ""
        members["mimeType"] = Raw(encode(declared_type or next(detected_types, _ANY_MEDIA_TYPE)))


def mend_contents(value: Raw) -> Raw:
    """Repair the contents of a resource as far as possible."""
    members = _object(value)
    if members is None:
        return value
    blob = members.get("blob")
    base64 = _base64(str(_decode(blob))) if blob is not None and bytes(blob)[:1] == b'"' else None
    if base64 is not None:
        members["blob"] = Raw(encode(base64))
    if "blob" not in members or base64 is None:
        _mend_text(members)
    _keep_valid(members, _decode_contents_member, {})
    return Raw(encode(members))


def _base64(text: str) -> str | None:
    """Return padded standard base64 (RFC 4648) for input without padding, with line breaks or in the URL-safe alphabet;
    None for other text.
    """
    unpadded = text.translate(_SPACES).replace("-", "+").replace("_", "/").rstrip("=")
    padded = unpadded + "=" * (-len(unpadded) % 4)
    try:
        binascii.a2b_base64(padded, strict_mode=True)
    except ValueError:
        return None
    return padded


def _annotations(value: Raw) -> bytes | None:
    members = _object(value)
    if members is None:
        return None
    _keep_valid(members, _decode_annotation, {"audience": _audience})
    return encode(members) if members else None


def _audience(value: Raw) -> bytes | None:
    decoded = _value(value)
    roles = [role for role in (decoded if isinstance(decoded, list) else [decoded]) if role in ("user", "assistant")]
    return encode(roles) if roles else None


def _icons(value: Raw) -> bytes | None:
    if bytes(value)[:1] != b"[" or bytes(value).count(b",") > MOST_COMMAS:
        return None
    return encode([icon for icon in _decode_list(value)[:MOST_BLOCKS] if is_valid(_decode_icon, icon)])


def _size(value: Raw) -> bytes | None:
    decoded = _value(value)
    return (
        b"%d" % int(decoded) if isinstance(decoded, float) and decoded.is_integer() and abs(decoded) <= 2**53 else None
    )


_MENDS: Final[Mapping[str, Mend]] = {"annotations": _annotations, "icons": _icons, "size": _size}


def _keep_valid(members: RawObject, decoders: Mapping[str, Decode], mends: Mapping[str, Mend]) -> None:
    """Repair, or else remove, optional members that their decoder refuses."""
    for name in members.keys() & decoders.keys():
        if not is_valid(decoders[name], members[name]):
            mend = mends.get(name)
            value = None if mend is None else mend(members[name])
            if value is None:
                del members[name]
            else:
                members[name] = Raw(value)


def is_valid(decode: Decode, value: bytes | Raw) -> bool:
    """Whether a value has the decoder's type. Raises one of jsonrpc.UNREADABLE for invalid JSON."""
    try:
        decode(value)
    except msgspec.ValidationError:
        return False
    return True


def _object(value: Raw) -> RawObject | None:
    """Decode an object; None for other values and for one with too many commas."""
    raw = bytes(value)
    return decode_object(raw) if raw[:1] == b"{" and raw.count(b",") <= MOST_COMMAS else None


def _is_empty_list(value: Raw) -> bool:
    raw = bytes(value)
    return raw[:1] == b"[" and raw[1:-1].strip() == b""


def _json_as_text(value: bytes | Raw) -> bytes:
    """Make a text block of a value's JSON."""
    return b'{"type":"text","text":%b}' % encode(bytes(value).strip().decode())
