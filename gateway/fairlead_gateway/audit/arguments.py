"""Renders call arguments for the audit log: not at all, as a keyed hash, with redacted members, or in full.

Pure module that runs in the audit log's thread. The keyed hash shows whether two calls had equal arguments without
disclosing the arguments: only somebody with the key can test a guess against the hash.
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
"""Maximum number of bytes of arguments in a line; larger arguments are left out."""
ANY: Final = "*"
"""Step of a path that matches any member or list item of one level."""
DEEP: Final = "**"
"""Step of a path that matches any number of levels."""

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder(order="sorted").encode

Path = tuple[str, ...]
"""Path to arguments that are redacted: the names of the members, from the outermost."""


class BadPath(ValueError):
    """Invalid path in `FAIRLEAD_AUDIT_REDACT`. The message names the path."""


def read_path(text: str) -> Path:
    """Parse a path such as `user.password`, `*.token` (one level) or `**.token` (any depth). A leading `$.` is allowed,
    and `*` matches items of lists too. Raises BadPath.
    """
    steps = tuple(text.removeprefix("$").strip(".").split("."))
    if not all(steps) or steps[-1] == DEEP:
        raise BadPath(f"{text!r} is not a path: write names with dots between them, such as user.password or **.token")
    return steps


def redact(value: Any, paths: Sequence[Path]) -> Any:
    """Copy a decoded JSON value and replace everything that a path matches by REDACTED."""
    if any(not path for path in paths):
        return REDACTED
    if not paths or not isinstance(value, dict | list):
        return value
    if isinstance(value, list):
        item_paths = _paths_below(None, paths)
        return [redact(item, item_paths) for item in value]
    return {name: redact(item, _paths_below(name, paths)) for name, item in value.items()}


def _paths_below(name: str | None, paths: Sequence[Path]) -> list[Path]:
    """Remaining paths below a member called `name`, or below an item of a list if `name` is None."""
    remaining: list[Path] = []
    for path in paths:
        if path[0] == DEEP:
            remaining.append(path)
            if _matches(path[1], name):
                remaining.append(path[2:])
        elif _matches(path[0], name):
            remaining.append(path[1:])
    return remaining


def _matches(step: str, name: str | None) -> bool:
    return step == ANY or (name is not None and step.lower() == name.lower())


def argument_renderer(mode: Mode, key: bytes, paths: Sequence[Path]) -> Callable[[Raw], dict[str, Any]]:
    """Return the function that renders raw arguments as members of a line.

    `key` is for the mode `hash`, `paths` are for the mode `redact`.
    """
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
        return {"argumentsLeftOut": f"the arguments have more than {MAX_ARGUMENTS} bytes"}
    try:
        return {"arguments": redact(_decode(raw), paths)}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {"argumentsLeftOut": "the arguments are not valid JSON, or nested too deeply"}
