"""Lists of tools in entries of client configurations, as overrides of an McpServer's tools. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from fairlead_api.clientkeys import EXCLUDED, INCLUDED, Remark

_ALL: Final = ("*", "all")
_WITH_ARGUMENTS: Final = re.compile(r"([^()*?\[\]]+)\(.*\)", re.DOTALL)
"""Gemini CLI allows `tool(arguments)`."""
_PATTERN: Final = re.compile(r"[*?\[\]]")


def add_tools(spec: dict[str, Any], content: Mapping[str, Any]) -> Iterator[Remark]:
    """Put the lists of included and excluded tools into a spec, and give remarks about what cannot be heeded.

    What `fairlead.tools` says of a tool is kept, but for `enabled`, where a list of the client excludes it.
    """
    overrides = [dict(tool) if isinstance(tool, Mapping) else tool for tool in spec.get("tools") or ()]
    by_name = {str(tool.get("name")): tool for tool in overrides if isinstance(tool, dict)}
    changed = False
    for key in INCLUDED:
        names, remark = _names(key, content.get(key), whole=True)
        if remark is not None:
            yield remark
        if names:
            spec["discovery"] = {**(spec.get("discovery") or {}), "tools": "Named"}
            for name in names:
                if name not in by_name:
                    overrides.append(by_name.setdefault(name, {"name": name}))
            changed = True
    for key in EXCLUDED:
        names, remark = _names(key, content.get(key), whole=False)
        if remark is not None:
            yield remark
        for name in names:
            if name not in by_name:
                overrides.append(by_name.setdefault(name, {"name": name}))
            by_name[name]["enabled"] = False
            changed = True
    if changed:
        spec["tools"] = overrides


def _names(key: str, value: Any, *, whole: bool) -> tuple[list[str], Remark | None]:
    """Names of a list. A pattern cannot be heeded: of a list of the only tools, neither can the rest (`whole`)."""
    if value is None or value == [] or value == {} or value in _ALL:
        return [], None
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        return [], Remark(key, "is not heeded: it is not a list of names of tools", stops=False)
    if any(name in _ALL for name in value):
        return [], None
    names = [match[1].strip() if (match := _WITH_ARGUMENTS.fullmatch(name)) else name for name in value]
    patterns = [name for name in names if _PATTERN.search(name)]
    if not patterns:
        return list(dict.fromkeys(names)), None
    consequence = "all tools are offered" if whole else "what it matches is offered"
    remark = Remark(key, f"holds the pattern {patterns[0]}, which is not heeded: {consequence}", stops=False)
    return ([] if whole else [name for name in names if name not in patterns]), remark
