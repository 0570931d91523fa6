"""Arguments of a call in the audit log: nothing, a keyed hash, all but redacted members, or all.

Pure module, run in the log's thread. The keyed hash tells whether two calls had equal arguments without telling what
they were; without the key nobody can try guesses against it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw

Mode = Literal["none", "hash", "redact", "full"]
REDACTED: Final = "[redacted]"
MAX_ARGUMENTS: Final = 16 << 10
"""Bytes of arguments that go into a line; of larger ones it says how large they are."""
ANY: Final = "*"
DEEP: Final = "**"

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder(order="sorted").encode

Path = tuple[str, ...]


class BadPath(ValueError):
    """A path that cannot be read; the message names it."""


def read_path(text: str) -> Path:
    """`user.password`, `*.token` (one level), `**.token` (any depth), with or without a leading `$.`; members of lists
    are named by `*` as well. Raises BadPath.
    """
    steps = tuple(text.removeprefix("$").strip(".").split("."))
    if not all(steps) or steps[-1] == DEEP:
        raise BadPath(f"{text!r} is not a path: write names with dots between them, such as user.password or **.token")
    return steps


def redact(value: Any, paths: Sequence[Path]) -> Any:
    """A copy with REDACTED in place of everything that a path leads to. `value` is JSON, as Python has it."""
    if any(not path for path in paths):
        return REDACTED
    if not paths or not isinstance(value, dict | list):
        return value
    if isinstance(value, list):
        within = _below(None, paths)
        return [redact(item, within) for item in value]
    return {name: redact(item, _below(name, paths)) for name, item in value.items()}


def _below(name: str | None, paths: Sequence[Path]) -> list[Path]:
    """Rest of the paths for a member of that name, or for one of a list."""
    left: list[Path] = []
    for path in paths:
        if path[0] == DEEP:
            left.append(path)
            if _names(path[1], name):
                left.append(path[2:])
        elif _names(path[0], name):
            left.append(path[1:])
    return left


def _names(step: str, name: str | None) -> bool:
    return step == ANY or (name is not None and step.lower() == name.lower())


def teller(mode: Mode, key: bytes, paths: Sequence[Path]) -> Callable[[Raw], dict[str, Any]]:
    """The function from raw arguments to the members that a line gets for them."""
    if mode == "hash":
        return lambda raw: {"argumentsHash": _hash(key, raw)}
    if mode == "redact":
        return lambda raw: _members(raw, paths)
    if mode == "full":
        return lambda raw: _members(raw, ())
    return lambda raw: {}


def _hash(key: bytes, raw: Raw) -> str:
    try:
        canonical = _encode(_decode(raw))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        canonical = bytes(raw)
    return "hmac-sha256:" + hmac.new(key, canonical, hashlib.sha256).hexdigest()


def _members(raw: Raw, paths: Sequence[Path]) -> dict[str, Any]:
    if len(raw) > MAX_ARGUMENTS:
        return {"argumentsLeftOut": f"they are larger than {MAX_ARGUMENTS} bytes"}
    try:
        return {"arguments": redact(_decode(raw), paths)}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {"argumentsLeftOut": "they cannot be read"}
