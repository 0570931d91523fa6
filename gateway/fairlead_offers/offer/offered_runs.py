"""Runs calls of tools that a model was offered: each goes the way of every call, whatever the model spoke over."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead_formats.messages.call import ModelCall
from fairlead_gateway.calls.path.direct import Origin
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog
from fairlead_offers.catalogs.visible_tools import GATEWAY
from fairlead_offers.offer.offered_calls import offered_calls
from fairlead_offers.offer.offers import OfferWishes, ToolOffer
from fairlead_offers.run.requested_calls import Planned
from fairlead_offers.run.tool_runs import result_for, run_calls
from fairlead_offers.services import ToolServices

AT_ONCE: Final = 32
"""Calls of one message that run at the same time."""


class OfferedRun(msgspec.Struct, frozen=True):
    """One call that was run, or refused."""

    plan: Planned
    result: Mapping[str, Any] | None
    """MCP result, refusals included."""
    seconds: float

    @property
    def failed(self) -> bool:
        """Whether the result is an error."""
        return bool(self.result and self.result.get("isError"))

    @property
    def tool(self) -> str | None:
        """Exposed name of the tool that was called; None for a refused call."""
        return self.plan.entry.name if self.plan.runs and self.plan.entry is not None else None

    @property
    def repeatable(self) -> bool:
        """Whether the call may be made again without harm."""
        return _repeatable(self.plan)

    @property
    def result_tokens(self) -> int:
        """Tokens of the result's texts, about."""
        content = (self.result or {}).get("content")
        parts = content if isinstance(content, list) else []
        texts = [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
        return sum(map(len, texts)) // 4


async def run_offered(
    services: ToolServices,
    origin: Origin,
    get_catalog: Callable[[], SubjectCatalog],
    wishes: OfferWishes,
    offer: ToolOffer,
    format_name: str,
    calls: Sequence[ModelCall],
    *,
    room: int | None = None,
    why: str = "",
    approved: bool = False,
) -> list[OfferedRun]:
    """Run calls together, each by what policies say now. Those behind the first `room` are refused, for the reason
    `why`. `approved`: the client said so, and they do not run by themselves. Cancelling cancels all calls. Raises
    Problem.
    """
    visible, all_planned = await services.work.do(
        lambda: offered_calls(services, get_catalog(), wishes, offer, format_name, calls, approved=approved)
    )
    planned = all_planned if room is None else _within(all_planned, room, why)
    with services.caller.holding(origin) as holding:
        outcomes = await run_calls(services, origin, visible, planned, holding, at_once=AT_ONCE)
        results = [result_for(plan, outcome) for plan, outcome in zip(planned, outcomes, strict=True)]
    return [
        OfferedRun(plan, result, outcome.seconds)
        for plan, outcome, result in zip(planned, outcomes, results, strict=True)
    ]


async def all_repeatable(
    services: ToolServices,
    get_catalog: Callable[[], SubjectCatalog],
    wishes: OfferWishes,
    offer: ToolOffer,
    format_name: str,
    calls: Sequence[ModelCall],
) -> bool:
    """Whether all these calls may be made twice without harm. Raises Problem."""
    _, planned = await services.work.do(
        lambda: offered_calls(services, get_catalog(), wishes, offer, format_name, calls, approved=False)
    )
    return all(map(_repeatable, planned))


def _repeatable(plan: Planned) -> bool:
    """Whether nothing is called, or a tool that only reads, by annotations that are trusted."""
    return not plan.runs or plan.entry is None or plan.entry.server == GATEWAY or plan.entry.tool.idempotent


def _within(planned: list[Planned], room: int, why: str) -> list[Planned]:
    return [*planned[:room], *(Planned(plan.call, None, denied=why) for plan in planned[room:])]
