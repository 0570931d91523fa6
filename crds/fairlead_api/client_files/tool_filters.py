"""Tool filters that some clients and proxies give as an object, as the two lists of tools of most clients. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

FILTER: Final = "toolFilter"
_HOLDER: Final = "options"
_OF_MODE: Final = {"allow": "includeTools", "block": "excludeTools"}


def with_tool_filter(content: Mapping[str, Any], original_keys: dict[str, str]) -> Mapping[str, Any]:
    """An entry with `includeTools` and `excludeTools` in place of a filter, whose key is added to `original_keys`.

    OpenClaw's `toolFilter` has `include` and `exclude`. That of TBXark's mcp-proxy stands in `options` and has `mode`
    (`allow` or `block`) and `list`. A filter of another form stays in `toolFilter`, so that users are told of it.
    """
    if FILTER in content:
        own_key, tool_filter = FILTER, content[FILTER]
    elif _HOLDER in content and isinstance(content[_HOLDER], Mapping):
        own_key, tool_filter = _HOLDER, content[_HOLDER].get(FILTER)
    else:
        return content
    if not tool_filter:
        return {key: value for key, value in content.items() if key != FILTER}
    lists = _lists(tool_filter)
    rest = {key: value for key, value in content.items() if key != FILTER}
    if lists is None:
        return {**rest, FILTER: tool_filter}
    original_keys |= {key: own_key for key in lists if key not in content}
    return {**lists, **rest}


def _lists(tool_filter: Any) -> dict[str, Any] | None:
    """The lists of tools in a filter, by their keys in most clients; None for an unknown form."""
    match tool_filter:
        case list():
            return {"includeTools": tool_filter}
        case {"mode": str(mode), "list": listed} if mode.lower() in _OF_MODE:
            return {_OF_MODE[mode.lower()]: listed}
        case Mapping() if tool_filter.keys() <= {"include", "exclude"}:
            return {f"{key}Tools": listed for key, listed in tool_filter.items()}
        case _:
            return None
