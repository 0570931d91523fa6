"""Conversion of the tool lists in client configurations to overrides of an McpServer's tools. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from fairlead_api.client_files.keys import EXCLUDED, INCLUDED, Remark

_ALL: Final = ("*", "all")
_WITH_ARGUMENTS: Final = re.compile(r"([^()*?\[\]]+)\(.*\)", re.DOTALL)
"""Gemini CLI's syntax `tool(arguments)`."""
_PATTERN: Final = re.compile(r"[*?\[\]]")


def add_tools(spec: dict[str, Any], content: Mapping[str, Any]) -> Iterator[Remark]:
    """Add a client's lists of included and excluded tools to a spec, and yield remarks about list items that have no
    effect.

    Members of `fairlead.tools` stay; only `enabled` is overwritten if the client's lists exclude the tool.
    """
    overrides = _Overrides(spec.get("tools") or ())
    for key in INCLUDED:
        names, remark = _names(key, content.get(key), whole=True)
        if remark is not None:
            yield remark
        for name in names:
            overrides.of(name)
        if names:
            spec["discovery"] = {**(spec.get("discovery") or {}), "tools": "Named"}
    for key in EXCLUDED:
        names, remark = _names(key, content.get(key), whole=False)
        if remark is not None:
            yield remark
        for name in names:
            overrides.of(name)["enabled"] = False
    if overrides.named:
        spec["tools"] = overrides.tools


class _Overrides:
    """Overrides of a spec, one per named tool."""

    def __init__(self, tools: Iterable[Any]) -> None:
        self.tools = [dict(tool) if isinstance(tool, Mapping) else tool for tool in tools]
        self._by_name = {str(tool.get("name")): tool for tool in self.tools if isinstance(tool, dict)}
        self.named = False
        """Whether a list names any tool."""

    def of(self, name: str) -> dict[str, Any]:
        """The override of a tool, created if necessary."""
        self.named = True
        if name not in self._by_name:
            self._by_name[name] = {"name": name}
            self.tools.append(self._by_name[name])
        return self._by_name[name]


def _names(key: str, value: Any, *, whole: bool) -> tuple[list[str], Remark | None]:
    """Tool names in a client's list, and a remark about items that have no effect. A pattern has no effect; with
    `whole`, one pattern makes the whole list ineffective.
    """
    if value in (None, [], {}, *_ALL):
        return [], None
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
        return [], Remark(key, "is ignored, because it is not a list of names of tools", stops=False)
    if not set(listed).isdisjoint(_ALL):
        return [], None
    names = [_without_arguments(name) for name in listed]
    patterns = [name for name in names if _PATTERN.search(name)]
    if not patterns:
        return list(dict.fromkeys(names)), None
    consequence = "all tools are offered" if whole else "the tools that it matches are offered"
    remark = Remark(key, f"has the pattern {patterns[0]}, which is ignored: {consequence}", stops=False)
    return ([] if whole else [name for name in names if name not in patterns]), remark


def _without_arguments(name: str) -> str:
    match = _WITH_ARGUMENTS.fullmatch(name)
    return name if match is None else match[1].strip()
