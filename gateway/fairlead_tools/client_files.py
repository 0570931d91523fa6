"""Text of a client's configuration with an entry put in or taken out, all else kept. Pure module."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final

_INDENT: Final = re.compile(r"^([ \t]+)\S", re.MULTILINE)


class UnreadableFile(ValueError):
    """A configuration that cannot be changed without losing something; the message says what to do."""


def with_entry(text: str, member: str, name: str, entry: Mapping[str, Any] | None, *, toml: bool) -> str:
    """The text with the entry as `member.name`; without it where `entry` is None. Raises UnreadableFile."""
    return _toml(text, member, name, entry) if toml else _json(text, member, name, entry)


def entry_of(text: str, member: str, name: str, *, toml: bool) -> object:
    """The entry that stands in the text; None where there is none. Raises UnreadableFile."""
    document = _decoded_toml(text) if toml else _decoded(text)
    servers = document.get(member)
    return servers.get(name) if isinstance(servers, dict) else None


def _json(text: str, member: str, name: str, entry: Mapping[str, Any] | None) -> str:
    document = _decoded(text)
    servers = document.setdefault(member, {})
    if not isinstance(servers, dict):
        raise UnreadableFile(f"its member {member} is no object")
    if entry is None:
        servers.pop(name, None)
        if not servers:
            del document[member]
    else:
        servers[name] = entry
    found = _INDENT.search(text)
    indent: str | int = found[1] if found else 2
    return json.dumps(document, indent=indent, ensure_ascii=False) + "\n" if document else ""


def _decoded(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text) if text.strip() else {}
    except (json.JSONDecodeError, RecursionError) as error:
        if re.search(r"^\s*//|/\*|,\s*[}\]]", text, re.MULTILINE):
            raise UnreadableFile("it has comments or trailing commas, which would be lost") from error
        raise UnreadableFile(f"it is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise UnreadableFile("it is no JSON object")
    return document


def _toml(text: str, member: str, name: str, entry: Mapping[str, Any] | None) -> str:
    """TOML is changed by whole tables, so that comments stay: an entry is a table of texts."""
    servers = _decoded_toml(text).get(member, {})
    header = f"[{member}.{name}]"
    lines = text.splitlines(keepends=True)
    start = next((at for at, line in enumerate(lines) if line.split("#")[0].strip() == header), None)
    if start is None and isinstance(servers, dict) and name in servers:
        raise UnreadableFile(f"it defines {member}.{name} in another form than a table {header}")
    if start is not None:
        rest = (at for at in range(start + 1, len(lines)) if lines[at].lstrip().startswith("["))
        end = next(rest, len(lines))
        if any(line.strip().startswith(f"[{member}.{name}.") for line in lines[end : end + 1]):
            raise UnreadableFile(f"{header} has tables below it")
        del lines[start:end]
    kept = "".join(lines).rstrip("\n")
    kept = kept + "\n" if kept else ""
    if entry is None:
        return kept
    values = "".join(f"{key} = {json.dumps(value)}\n" for key, value in entry.items())
    return f"{kept}{chr(10) if kept else ''}{header}\n{values}"


def _decoded_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UnreadableFile(f"it is not TOML: {error}") from error
