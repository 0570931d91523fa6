"""Bodies of requests: JSON, forms, text and bytes. No I/O."""

from __future__ import annotations

import binascii
from typing import Final, NamedTuple

from msgspec import Raw

from fairlead_api.documents.operations import OperationBody, PartEncoding
from fairlead_mcp import jsonrpc
from fairlead_mcp.errors import ArgumentsRefused
from fairlead_openapi.calling.multipart import FormPart, multipart
from fairlead_openapi.calling.styles import encoder, escape, pairs, spread
from fairlead_openapi.calling.values import Members, compact, items_of, kind_of, members_of, text_of

FORM: Final = "application/x-www-form-urlencoded"
MULTIPART: Final = "multipart/form-data"
_BYTES: Final = "application/octet-stream"
_WHITESPACE: Final = str.maketrans("", "", " \t\r\n")
_DEFAULT_ENCODING: Final = PartEncoding()


class EncodedBody(NamedTuple):
    """Body of a request with its `Content-Type`."""

    content_type: str
    data: bytes


def build_body(body: OperationBody, arguments: Members) -> EncodedBody | None:
    """Make the body from the arguments of a call; None if none of its arguments is given and the body is optional.

    Raises ArgumentsRefused for arguments that cannot be written in the media type.
    """
    base = base_type(body.media_type)
    if body.argument:
        value = arguments.get(body.argument)
        if value is None:
            if body.required:
                raise ArgumentsRefused(f"The argument {body.argument} is missing: it is the body of the request")
            return None
        if base not in (FORM, MULTIPART):
            return EncodedBody(_content_type(body.media_type), _encode_whole(body, base, value))
        if kind_of(value) != "{":
            raise ArgumentsRefused(f"The argument {body.argument} has to be an object: it is sent as a form")
        return _form(base, members_of(value), body)
    properties = {body.properties[name]: value for name, value in arguments.items() if name in body.properties}
    if not properties and not body.required:
        return None
    if base in (FORM, MULTIPART):
        return _form(base, properties, body)
    if not is_json(base):
        raise ArgumentsRefused(
            f"The body of the request is {body.media_type}, which cannot be made from several arguments"
        )
    return EncodedBody(body.media_type, _object(properties))


def base_type(media_type: str) -> str:
    """Media type in lower case, without parameters."""
    return media_type.partition(";")[0].strip().lower()


def is_json(base: str) -> bool:
    """Whether a media type without parameters is JSON (RFC 6839 section 3.1)."""
    return base.endswith(("/json", "+json"))


def decode_base64(argument: str, value: Raw) -> bytes:
    """Bytes of an argument in base64, in either alphabet, with or without padding. Raises ArgumentsRefused."""
    if kind_of(value) == '"':
        digits = text_of(value).translate(_WHITESPACE).replace("-", "+").replace("_", "/").rstrip("=")
        try:
            return binascii.a2b_base64(digits + "=" * (-len(digits) % 4), strict_mode=True)
        except ValueError:
            pass
    raise ArgumentsRefused(f"The argument {argument} is not base64: its bytes have to be given in base64")


def _object(members: Members) -> bytes:
    encoded_members = (b"%b:%b" % (jsonrpc.encode(name), compact(value)) for name, value in members.items())
    return b"{%b}" % b",".join(encoded_members)


def _encode_whole(body: OperationBody, base: str, value: Raw) -> bytes:
    if body.binary:
        return decode_base64(body.argument, value)
    return compact(value) if is_json(base) else text_of(value).encode("utf-8", "replace")


def _content_type(media_type: str) -> str:
    """Media type of a whole body; a text names its encoding."""
    base = base_type(media_type)
    return f"{media_type}; charset=utf-8" if base.startswith("text/") and "charset" not in media_type else media_type


def _form(base: str, properties: Members, body: OperationBody) -> EncodedBody:
    encodings = body.encodings
    if base == FORM:
        form_pairs = [
            pair for name, value in properties.items() for pair in _form_pairs(name, value, encodings.get(name))
        ]
        return EncodedBody(body.media_type, "&".join(form_pairs).encode())
    parts = [part for name, value in properties.items() for part in _parts(name, value, encodings.get(name))]
    return EncodedBody(*multipart(parts))


def _form_pairs(name: str, value: Raw, encoding: PartEncoding | None) -> list[str]:
    """Pairs of one property; objects are written as JSON unless the document gives a style."""
    kind = kind_of(value)
    if kind == "n":
        return []
    if encoding is not None and not is_json(base_type(encoding.content_type)):
        encode = encoder(allow_reserved=encoding.allow_reserved)
        return pairs(name, value, encoding.style, explode=encoding.explode, encode=encode)
    texts = [value] if kind != "[" or encoding is not None else items_of(value)
    as_json = encoding is not None
    return [f"{escape(name)}={escape(compact(text).decode() if as_json else text_of(text))}" for text in texts]


def _parts(name: str, value: Raw, encoding: PartEncoding | None) -> list[FormPart]:
    """Parts of one property: one for each item of a list, unless the list is sent as JSON."""
    kind, encoding = kind_of(value), encoding or _DEFAULT_ENCODING
    media_type = encoding.content_type.partition(",")[0].strip()  # a list of media types leaves the choice
    if "*" in media_type:
        media_type = ""
    as_json = is_json(base_type(media_type))
    if kind == "n":
        return []
    is_styled = encoding.styled or (encoding.style == "deepObject" and not as_json)
    if kind in "{[" and is_styled and not encoding.binary:
        named_texts = spread(name, value, encoding.style, explode=encoding.explode)
        return [FormPart(key, text.encode("utf-8", "replace")) for key, text in named_texts]
    items = items_of(value) if kind == "[" and not as_json else [value]
    if encoding.binary:
        return [FormPart(name, decode_base64(name, item), media_type or _BYTES, filename=name) for item in items]
    if as_json:
        return [FormPart(name, compact(item), media_type) for item in items]
    return [
        FormPart(name, text_of(item).encode("utf-8", "replace"), media_type or _type_of_part(item)) for item in items
    ]


def _type_of_part(value: Raw) -> str:
    """Media type of a part without one in the document; empty for a text (RFC 7578 section 4.4)."""
    return "application/json" if kind_of(value) in "{[" else ""
