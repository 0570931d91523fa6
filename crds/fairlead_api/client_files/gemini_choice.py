"""Servers that the settings of Gemini CLI choose: `mcp.allowed` and `mcp.excluded`, beside `mcpServers`.

This module has no I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final

LIST: Final = "mcpServers"
SETTINGS: Final = "mcp"
_CHOICES: Final = ("allowed", "excluded")


def chosen_servers(listed: Mapping[str, Any], settings: Any) -> Mapping[str, Any]:
    """Servers that Gemini CLI starts: the servers in `mcp.allowed` if that is set, else all servers, but without the
    servers in `mcp.excluded`."""
    if not isinstance(settings, Mapping):
        return listed
    allowed, excluded = (settings.get(choice) for choice in _CHOICES)
    if isinstance(allowed, list):
        listed = {name: entry for name, entry in listed.items() if name in allowed}
    if isinstance(excluded, list):
        listed = {name: entry for name, entry in listed.items() if name not in excluded}
    return listed


def choice_remarks(content: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Path and message for each name in `mcp.allowed` and `mcp.excluded` that is not the name of a server in the file,
    and a remark if the two lists leave no server."""
    listed, settings = content.get(LIST), content.get(SETTINGS)
    if not isinstance(listed, Mapping) or not listed or not isinstance(settings, Mapping):
        return
    names = list(map(str, listed))
    for choice in _CHOICES:
        chosen = settings.get(choice)
        for index, name in enumerate(chosen if isinstance(chosen, list) else ()):
            if name not in names:
                near = get_close_matches(str(name), names, n=1)
                advice = f"did you mean {near[0]}?" if near else "correct or remove the name"
                yield (SETTINGS, choice, index), f"{name} is not a server in {LIST} of this file; {advice}"
    if not chosen_servers(listed, settings):
        excluded = settings.get("excluded")
        empty_by_exclusion = isinstance(excluded, list) and chosen_servers(listed, {**settings, "excluded": None})
        advice = "remove one from mcp.excluded" if empty_by_exclusion else "add the name of one to mcp.allowed"
        yield (SETTINGS,), f"none of the servers in {LIST} is chosen: {advice}"
