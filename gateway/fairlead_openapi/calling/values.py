"""Texts of JSON values, as parameters and forms have them. No I/O."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

import msgspec
from msgspec import Raw

from fairlead_mcp.errors import ArgumentsRefused

Members: TypeAlias = dict[str, Raw]
"""Members of a JSON object as raw JSON, so that numbers keep all their digits."""
Value: TypeAlias = str | list[str] | dict[str, str]
"""A parameter's value: the text of a scalar, or the texts of a list's items or of an object's members."""

MAX_EXACT: Final = 2**53
"""Integers below this number are exact in a double."""
MAX_VALUES: Final = 2_048
"""Limit on the items or members of a value in a parameter or a form: each takes some 10 µs of the event loop."""
_INTEGER: Final = re.compile(r"-?[0-9]+")

_decode_members: Final = msgspec.json.Decoder(Members).decode
_decode_items: Final = msgspec.json.Decoder(list[Raw]).decode
_decode_text: Final = msgspec.json.Decoder(str).decode


def compact(value: Raw | bytes) -> bytes:
    """Raw JSON without whitespace between its tokens. Raises msgspec.DecodeError, and RecursionError."""
    return msgspec.json.format(bytes(value), indent=-1)


def kind_of(value: Raw) -> str:
    """First character of raw JSON: `{`, `[`, `"`, `t`, `f`, `n`, or a digit or `-` for a number."""
    start = bytes(value).strip()[:1].decode("latin-1")
    return start if start in '{["tfn' else "0"


def members_of(value: Raw) -> Members:
    """Members of a raw JSON object, without those that are null. Raises ArgumentsRefused beyond MAX_VALUES."""
    members = _decode_members(value)
    check_number(len(members))
    return {name: member for name, member in members.items() if kind_of(member) != "n"}


def items_of(value: Raw) -> list[Raw]:
    """Items of a raw JSON list, without those that are null. Raises ArgumentsRefused beyond MAX_VALUES."""
    items = _decode_items(value)
    check_number(len(items))
    return [item for item in items if kind_of(item) != "n"]


def check_number(values: int) -> None:
    """Raise ArgumentsRefused for more than MAX_VALUES."""
    if values > MAX_VALUES:
        raise ArgumentsRefused(f"A list or object has too many values for a parameter or form: at most {MAX_VALUES}")


def text_of(value: Raw) -> str:
    """Text of a raw JSON value: a string's own text, and the JSON of other values.

    A number without fraction is written without a decimal point, because JSON does not tell 2.0 from 2.
    """
    kind = kind_of(value)
    if kind == '"':
        return _decode_text(value)
    text = compact(value).decode()
    if kind != "0" or _INTEGER.fullmatch(text):
        return text
    number = float(text)
    return str(int(number)) if number.is_integer() and abs(number) < MAX_EXACT else text


def value_of(value: Raw) -> Value | None:
    """The texts of a raw JSON value; None for null. Nested lists and objects become their JSON."""
    kind = kind_of(value)
    if kind == "n":
        return None
    if kind == "[":
        return [text_of(item) for item in items_of(value)]
    if kind == "{":
        return {name: text_of(member) for name, member in members_of(value).items()}
    return text_of(value)


def arguments_of(arguments: Raw | bytes | None) -> Members:
    """Arguments of a call. Raises ArgumentsRefused unless they are a JSON object, or absent."""
    if arguments is None or not bytes(arguments).strip():
        return {}
    try:
        return _decode_members(arguments)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ArgumentsRefused(f"The arguments are not a JSON object: {error}") from error
