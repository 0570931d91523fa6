"""Output about tools that a latency tier hides.

Gateways report them in `_meta["fairlead.dev/hidden"]` of `tools/list`, and as `hidden` in the REST API. Other MCP
servers may put anything there, so every member is checked. This module has no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from fairlead_cli.output import printable
from fairlead_gateway.policy.hidden_tools_notice import META_HIDDEN, HiddenTool, sentence

MAX_NAMED: Final = 10
"""Maximum number of hidden tools that a line names."""


def hidden_of(page: bytes) -> Any:
    """The notice about hidden tools in one page of `tools/list`; None if there is none."""
    try:
        return msgspec.json.decode(page)["_meta"][META_HIDDEN]
    except (msgspec.DecodeError, KeyError, TypeError, UnicodeDecodeError, RecursionError):
        return None


def hidden_lines(hidden: Any) -> Iterator[str]:
    """One line per tier that hides tools, such as `2 hidden in tier fast: a (over_budget, in standard), …`."""
    tools = list(_tools(hidden))
    if not tools:
        return
    by_tier: dict[str, list[dict[str, Any]]] = {}
    for tool in tools:
        by_tier.setdefault(tool["tier"], []).append(tool)
    count = hidden.get("count")
    unnamed_count = max(0, count - len(tools)) if isinstance(count, int) else 0
    for tier, tier_tools in by_tier.items():
        extra_count = unnamed_count if len(by_tier) == 1 else 0
        labels = [_tool_label(tool) for tool in tier_tools[:MAX_NAMED]]
        rest_count = len(tier_tools) + extra_count - len(labels)
        words = ", ".join([*labels, f"and {rest_count} more"] if rest_count else labels)
        yield f"{len(tier_tools) + extra_count} hidden in tier {printable(tier)}: {words}"
    if unnamed_count and len(by_tier) > 1:
        yield f"{unnamed_count} more hidden"


def why_hidden(hidden: Any, name: str) -> str | None:
    """Sentence about why a tool is hidden and which tier shows it, as in the refusal of a call; None for an unknown
    tool."""
    tool = next((tool for tool in _tools(hidden) if tool.get("name") == name), None)
    if tool is None:
        return None
    reason, tier, endpoint = (_text(tool.get(key)) for key in ("reason", "shownIn", "endpoint"))
    return printable(sentence(HiddenTool(name, tool["tier"], reason or "no reason given", tier, endpoint)))


def _tool_label(tool: dict[str, Any]) -> str:
    """A tool with the code of the reason, and the tier or endpoint that shows it."""
    reason = (_text(tool.get("reason")) or "").partition(" ")[0]
    tier, endpoint = _text(tool.get("shownIn")), _text(tool.get("endpoint"))
    location = f"in {tier}" if tier is not None else f"at {endpoint}" if endpoint is not None else ""
    words = ", ".join(word for word in (reason, location) if word)
    return printable(f"{tool['name']} ({words})" if words else str(tool["name"]))


def _tools(hidden: Any) -> Iterable[dict[str, Any]]:
    tools = hidden.get("tools") if isinstance(hidden, dict) else None
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict) and isinstance(tool.get("name"), str) and isinstance(tool.get("tier"), str):
            yield tool


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
