"""Reports about a request's model, tier and tools, in the response's member `fairlead` and its headers. Pure module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from fairlead_formats.tokens.exposure import SEARCH
from fairlead_models.providers import ModelTarget
from fairlead_offers.offer.offers import ToolOffer

MAX_NAMED_TOOLS: Final = 20
"""Maximum number of tools of one kind that a report names."""
MAX_MODEL_NAME: Final = 256
"""Maximum number of characters of a model name in a header."""


class CallReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """One call that the gateway ran."""

    name: str
    """The name that the model called; for `execute_tool`, the name in its arguments."""
    duration_ms: float
    is_error: bool = False


class PendingCall(msgspec.Struct, frozen=True):
    """One call that policies do not allow to run automatically. The client approves, runs or answers it."""

    id: str
    name: str
    """The name that the model called."""
    reason: str
    """Why policies do not allow the call to run automatically."""


class RequestReport(msgspec.Struct, frozen=True):
    """Facts about a request that are known before its answer."""

    target: ModelTarget
    offer: ToolOffer | None
    """Injected tools; None if none were to be injected."""
    tier_rule: str = ""
    """Rule that chose the tier; empty if the request or the installation names the tier."""

    def headers(self) -> dict[str, str]:
        """Response headers. Values about tools are tokens with parameters (RFC 9651)."""
        model = quote(f"{self.target.provider}/{self.target.model}"[:MAX_MODEL_NAME], safe="/:.-_@+~")
        headers = {"x-fairlead-model": model}
        offer = self.offer
        if offer is None:
            return headers | {"x-fairlead-tools": "none"}
        if offer.tier:
            headers["x-fairlead-tier"] = offer.tier
        if offer.refused:
            return headers | {"x-fairlead-tools": "none;because=window"}
        tools = f"{offer.way};injected={len(offer.definitions)}"
        if offer.way == SEARCH:
            tools += f";reachable={len(offer.reachable)};because={offer.search_reason}"
        headers["x-fairlead-tools"] = f"{tools};cut={len(offer.cut)}" if offer.cut else tools
        if offer.cut:
            reasons = Counter(cut.reason for cut in offer.cut)
            headers["x-fairlead-tools-cut"] = ", ".join(f"{reason};tools={n}" for reason, n in sorted(reasons.items()))
        return headers

    def member(
        self, rounds: int, calls: Sequence[CallReport], pending: Sequence[PendingCall], *, stopped: bool
    ) -> dict[str, Any]:
        """The member `fairlead` of the response."""
        member: dict[str, Any] = {"model": f"{self.target.provider}/{self.target.model}"}
        if self.offer is not None and self.offer.tier:
            member["tier"] = self.offer.tier
        if self.tier_rule:
            member["tierRule"] = self.tier_rule
        member |= {"rounds": rounds, "tools": _tools(self.offer), "calls": calls}
        if pending:
            member["pending"] = pending
        return {**member, "stopped": stopped}


def _tools(offer: ToolOffer | None) -> Mapping[str, Any]:
    if offer is None:
        return {"injected": 0}
    tools: dict[str, Any] = {"way": offer.way, "injected": len(offer.definitions)}
    if offer.names:
        tools["injectedTools"] = offer.names[:MAX_NAMED_TOOLS]
    if offer.way == SEARCH:
        tools |= {"reachable": len(offer.reachable), "because": offer.search_reason}
    if offer.cut:
        names_by_reason: dict[str, list[str]] = {}
        for cut in offer.cut[:MAX_NAMED_TOOLS]:
            names_by_reason.setdefault(cut.reason, []).append(cut.name)
        tools |= {"cut": len(offer.cut), "cutTools": names_by_reason}
    if offer.shadowed:
        tools["shadowed"] = offer.shadowed[:MAX_NAMED_TOOLS]
    if offer.refused:
        tools["refused"] = offer.refused
    return tools
