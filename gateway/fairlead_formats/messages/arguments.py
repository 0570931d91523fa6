"""Arguments as a model wrote them, read within bounds.

Pure module, for messages and for streams.
"""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec

from fairlead_formats.messages.call import EXCERPT, MAX_ARGUMENT_BYTES, MAX_DEPTH, MAX_NODES, InvalidCall
from fairlead_formats.tool_format import JsonObject

_decode = msgspec.json.Decoder().decode
_KINDS: Final[dict[type[Any], str]] = {
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    list: "a list",
    type(None): "null",
}


def read(value: object) -> JsonObject | InvalidCall:
    """Arguments from JSON text or from a decoded object. Nothing at all (None, `""`) is a call without arguments."""
    if isinstance(value, str | bytes):
        return _from_text(value)
    if value is None:
        return {}
    if not isinstance(value, dict):
        return InvalidCall(f"the arguments must be a JSON object, not {kind_of(value)}", excerpt(str(value)[:EXCERPT]))
    reason = amiss(value)
    return value if reason is None else InvalidCall(f"the arguments {reason}")


def _from_text(text: str | bytes) -> JsonObject | InvalidCall:
    if len(text) > MAX_ARGUMENT_BYTES:
        return InvalidCall(
            f"the arguments are {len(text)} characters long, more than the {MAX_ARGUMENT_BYTES} allowed", excerpt(text)
        )
    if not text.strip():
        return {}
    try:
        value = _decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        return InvalidCall(f"the arguments are not valid JSON: {error}", excerpt(text))
    except RecursionError:
        return InvalidCall(f"the arguments are nested deeper than {MAX_DEPTH} levels", excerpt(text))
    if value is None:
        return {}
    if not isinstance(value, dict):
        return InvalidCall(f"the arguments must be a JSON object, not {kind_of(value)}", excerpt(text))
    reason = None if _small(text) else amiss(value)
    return value if reason is None else InvalidCall(f"the arguments {reason}", excerpt(text))


def _small(text: str | bytes) -> bool:
    """Whether JSON text cannot exceed the bounds, whatever its strings hold: then it need not be walked. Everything
    else that `amiss` looks for is no JSON and was refused by the decoder.
    """
    raw = text.encode() if isinstance(text, str) else text
    opened = raw.count(b"{") + raw.count(b"[")
    return opened <= MAX_DEPTH and opened + raw.count(b",") < MAX_NODES


def amiss(value: object) -> str | None:
    """Fault of a decoded value as JSON within bounds, as the end of a sentence; None where nothing is.

    Walks without recursion, and not beyond the bounds.
    """
    stack: list[tuple[object, int]] = [(value, 1)]
    nodes = size = 0
    while stack:
        item, depth = stack.pop()
        nodes += 1
        if nodes > MAX_NODES:
            return f"hold more than {MAX_NODES} values"
        if not isinstance(item, dict | list):
            reason = _amiss_in_leaf(item)
            if reason is not None:
                return reason
            size += len(item) if isinstance(item, str) else 0
        else:
            if depth > MAX_DEPTH:
                return f"are nested deeper than {MAX_DEPTH} levels"
            if isinstance(item, dict):
                if not all(isinstance(key, str) and well_formed(key) for key in item):
                    return "hold a member whose name is not valid text"
                size += sum(map(len, item))
            stack.extend((child, depth + 1) for child in (item.values() if isinstance(item, dict) else item))
        if size > MAX_ARGUMENT_BYTES:
            return f"hold more than {MAX_ARGUMENT_BYTES} characters"
    return None


def _amiss_in_leaf(item: object) -> str | None:
    if isinstance(item, str):
        return None if well_formed(item) else "hold text that is not valid Unicode"
    if isinstance(item, float):
        return None if math.isfinite(item) else "hold a number that is not finite"
    if item is None or isinstance(item, int):
        return None
    return f"hold something that is no JSON value ({type(item).__name__})"


def well_formed(text: str) -> bool:
    """Whether text can be sent as UTF-8: it holds no lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def excerpt(text: str | bytes) -> str:
    """The beginning of what was sent, as text that can be sent on."""
    if isinstance(text, bytes):
        text = text[:EXCERPT].decode("utf-8", "replace")
    return text[:EXCERPT].encode("utf-8", "replace").decode()


def kind_of(value: object) -> str:
    """Noun for a value, for a sentence."""
    return "an object" if isinstance(value, dict) else _KINDS.get(type(value), type(value).__name__)
