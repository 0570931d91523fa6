"""Notice about the tools that a tier hides: how many, why, and which tier shows them.

Pure module. `tools/list` has the notice in `_meta["fairlead.dev/hidden"]`, REST responses have it in a member, and
refusals of calls in their text. Tools that a policy denies, or that a limit on lists cuts, are not in the notice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from fairlead_gateway.policy.tiers import Hidden, in_tier

META_HIDDEN: Final = "fairlead.dev/hidden"
MAX_NAMED: Final = 50
"""Maximum number of hidden tools that a notice names, to limit its size; further hidden tools are only counted."""
REASON_CHARACTERS: Final = 256
"""Maximum number of characters of a reason in a notice."""


class HiddenTool(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A tool that policies allow and a tier hides."""

    name: str
    """Name of the tool at the endpoint that lists it."""
    tier: str
    """The tier that hides the tool."""
    reason: str
    """Reason as in the tool's latency explanation, such as `over_budget p95=812ms tier=500ms`."""
    shown_in: str | None = None
    """The fastest tier that lists the tool; absent if no tier lists it."""
    endpoint: str | None = None
    """Path of the MCP endpoint that lists the tool: the endpoint of the tier `shownIn`, or the endpoint without a tier.
    Absent if no endpoint lists it.
    """


class HiddenTools(msgspec.Struct, frozen=True):
    """The tools that policies allow and a tier hides."""

    count: int
    tools: tuple[HiddenTool, ...]
    """The first 50 hidden tools, sorted by name."""


def notice(hidden_by_name: Mapping[str, Hidden], base: bytes) -> HiddenTools | None:
    """Notice for a list; None if no tier hides a tool. `base` is the target of the list's endpoint without a tier."""
    count, tools = 0, []
    for name, hiding in hidden_by_name.items():
        if hiding.hiding_tier is not None:
            count += 1
            if count <= MAX_NAMED:
                tools.append(hidden_tool(name, hiding.hiding_tier, hiding, base))
    return HiddenTools(count, tuple(tools)) if count else None


def hidden_tool(name: str, tier: str, hidden: Hidden, base: bytes) -> HiddenTool:
    """Describe one tool that `tier` hides."""
    target = base if hidden.untiered else None
    if hidden.tier is not None:
        target = in_tier(base, hidden.tier)
    endpoint = None if target is None else target.decode()
    return HiddenTool(name, tier, hidden.reason[:REASON_CHARACTERS], hidden.tier, endpoint)


def member_of(hidden: HiddenTools | None) -> bytes:
    """Member of `_meta` with the notice, as JSON text without braces; empty if `hidden` is None."""
    return b"" if hidden is None else b'"%b":%b' % (META_HIDDEN.encode(), msgspec.json.encode(hidden))


def refusal_message(name: str, hidden: Hidden, base: bytes) -> str:
    """Message for a refused call of a hidden tool: the reason, and the endpoint that lists the tool."""
    if hidden.hiding_tier is None:
        return f"the tool {name} is left out of the list: {hidden.reason}"
    return sentence(hidden_tool(name, hidden.hiding_tier, hidden, base))


def sentence(tool: HiddenTool) -> str:
    """Why a tier hides a tool, and which endpoint lists it."""
    if tool.shown_in is not None:
        alternative = f"tier {tool.shown_in} shows the tool, at {tool.endpoint}"
    elif tool.endpoint is not None:
        alternative = f"no tier shows the tool now, but the endpoint without a tier shows it, at {tool.endpoint}"
    else:
        alternative = "no tier shows the tool now"
    return f"tier {tool.tier} hides the tool {tool.name}: {tool.reason}; {alternative}"
