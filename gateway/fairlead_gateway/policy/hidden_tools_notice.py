"""Notice in a list about the tools that its tier hides: how many, why, and where they are.

Pure module. MCP has it as `_meta["fairlead.dev/hidden"]` of `tools/list`, the REST plane as a field of its answers, and
the refusal of a call in its text. Tools that a policy denies, or cuts by a limit on lists, are in none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from fairlead_gateway.policy.tiers import Hidden, in_tier

META_HIDDEN: Final = "fairlead.dev/hidden"
MOST_NAMED: Final = 50
"""Hidden tools that a list names; the rest are counted. It bounds the bytes that a tier adds to a short list."""
REASON_CHARACTERS: Final = 256
"""Characters of a reason that a list repeats."""


class HiddenTool(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A tool that policies allow and a tier hides."""

    name: str
    """As the endpoint that shows it has it."""
    tier: str
    """The tier that hides it."""
    reason: str
    """As `explain` has it, such as `over_budget p95=812ms tier=500ms`."""
    shown_in: str | None = None
    """The fastest tier that shows it. Absent: none does."""
    endpoint: str | None = None
    """Path of the MCP endpoint that shows it: that of `shownIn`, else the one without a tier. Absent: none does."""


class HiddenTools(msgspec.Struct, frozen=True):
    """The tools that policies allow and a tier hides."""

    count: int
    tools: tuple[HiddenTool, ...]
    """By name; the first 50."""


def notice(hidden: Mapping[str, Hidden], base: bytes) -> HiddenTools | None:
    """The notice of a list; None where no tier hides anything. `base` is the target of its endpoint without a tier."""
    count, named = 0, []
    for name, why in hidden.items():
        if why.by is not None:
            count += 1
            if count <= MOST_NAMED:
                named.append(hidden_tool(name, why.by, why, base))
    return HiddenTools(count, tuple(named)) if count else None


def hidden_tool(name: str, tier: str, hidden: Hidden, base: bytes) -> HiddenTool:
    """One tool of a notice, hidden by `tier`."""
    target = base if hidden.untiered else None
    if hidden.tier is not None:
        target = in_tier(base, hidden.tier)
    endpoint = None if target is None else target.decode()
    return HiddenTool(name, tier, hidden.reason[:REASON_CHARACTERS], hidden.tier, endpoint)


def member_of(hidden: HiddenTools | None) -> bytes:
    """The member of `_meta`, without the braces around it; empty for None."""
    return b"" if hidden is None else b'"%b":%b' % (META_HIDDEN.encode(), msgspec.json.encode(hidden))


def over_budget(name: str, hidden: Hidden, base: bytes) -> str:
    """Why a hidden tool is not called at the endpoint, and where it is."""
    if hidden.by is None:
        return f"{name} is left out of the list: {hidden.reason}"
    return sentence(hidden_tool(name, hidden.by, hidden, base))


def sentence(tool: HiddenTool) -> str:
    """Why a tier hides the tool, and where it is."""
    if tool.shown_in is not None:
        elsewhere = f"tier {tool.shown_in} has it, at {tool.endpoint}"
    elif tool.endpoint is not None:
        elsewhere = f"no tier has it now; without a tier it is shown, at {tool.endpoint}"
    else:
        elsewhere = "no tier has it now"
    return f"{tool.name} does not fit tier {tool.tier}: {tool.reason}; {elsewhere}"
