"""`GET /v1/tiers` and `POST /v1/tier`: the latency tiers, and the one that the next answer of a conversation needs."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Request, Response
from msgspec import Meta

from fairlead_gateway.conversation.token import ForgedState
from fairlead_gateway.conversation.turn import Choice, Turn
from fairlead_gateway.conversation.wait_estimate import SPEECH_TURN_MS, outlook
from fairlead_gateway.policy.tiers import by_speed, in_tier
from fairlead_gateway.policy.view import MERGED
from fairlead_offers.catalogs.subject_catalog import SubjectCatalog, limit_tier
from fairlead_offers.documents import decode
from fairlead_offers.problems import INVALID_ARGUMENTS, UNKNOWN_TIER, Problem
from fairlead_rest.context import RestContext
from fairlead_rest.examples import plans as examples
from fairlead_rest.openapi import describe_route


class TierDocument(msgspec.Struct, frozen=True, rename="camel"):
    """One tier."""

    name: str
    max_latency_ms: int | None
    """null: no limit."""
    quantile: str
    default: bool
    """Whether clients that name none are in it. Where no tier is, they see every tool."""
    endpoint: str
    """Path of the MCP endpoint that shows its tools."""
    tools: int
    """That it shows now."""
    hidden: dict[str, str]
    """Tool to the reason why it is not shown."""


class TierList(msgspec.Struct, frozen=True, rename="camel"):
    """The fastest first."""

    tiers: list[TierDocument]
    decided_at: str
    """RFC 3339, of the oldest decision; empty while nothing was measured."""


class TierRequest(Turn, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A turn, and what the answer to the one before gave along."""

    state: str = ""
    """Empty at the beginning of a conversation."""
    speech_turn_ms: Annotated[int, Meta(ge=0)] = SPEECH_TURN_MS


class TierAnswer(Choice, frozen=True, kw_only=True, rename="camel"):
    """The tier, why, what it means for who waits, and the state to send with the next request."""

    expected_ms: int | None
    filler: bool
    route: str
    state: str


def router(context: RestContext) -> APIRouter:
    """The resources `/v1/tiers` and `/v1/tier`."""
    routes = APIRouter(prefix="/v1", tags=["tiers"])

    @routes.get("/tiers", **describe_route("List tiers", TierList, examples.TIERS))
    async def list_tiers(request: Request) -> Response:
        seen = context.seen(request)
        return await context.answer(lambda: listed(seen))

    @routes.post(
        "/tier",
        **describe_route("Choose the tier of an answer", TierAnswer, examples.TIER_CHOSEN, TierRequest, examples.TIER),
    )
    async def choose_tier(request: Request) -> Response:
        seen = context.seen(request)
        wanted = decode(await context.read(request), TierRequest)
        return await context.answer(lambda: chosen(context, seen, wanted))

    return routes


def listed(seen: SubjectCatalog) -> TierList:
    """Every tier with what it shows and hides."""
    snapshot, shown, default = seen.snapshot, seen.tiers, seen.default_tier
    documents = []
    for tier in by_speed(snapshot.rules.tiers):
        if tier.name not in shown:
            continue
        view = seen.view(tier.name)
        documents.append(
            TierDocument(
                name=tier.name,
                max_latency_ms=tier.max_latency_ms,
                quantile=tier.quantile,
                default=tier.name == default,
                endpoint=in_tier(MERGED, tier.name).decode(),
                tools=len(view.routes),
                hidden={name: hidden.reason for name, hidden in view.hidden.items()},
            )
        )
    return TierList(documents, snapshot.decided_at)


def chosen(context: RestContext, seen: SubjectCatalog, wanted: TierRequest) -> TierAnswer:
    """The answer. Raises Problem for a state that was not made here."""
    choosers = context.services.choosers
    chooser = choosers.of(seen.snapshot.rules)
    if chooser is None:
        raise Problem(UNKNOWN_TIER, "there is no latency tier: declare one (kind LatencyTier)")
    try:
        state = choosers.sealer.open(wanted.state)
    except ForgedState as error:
        raise Problem(INVALID_ARGUMENTS, f"state: {error}; begin with an empty one") from error
    choice, after = chooser.choose(wanted, state, choosers.clock())
    choice = limit_tier(choice, seen)
    view = seen.view(choice.tier)
    ahead = outlook(view, seen.snapshot, choice.limit_ms, wanted.speech_turn_ms)
    return TierAnswer(
        **msgspec.structs.asdict(choice), **msgspec.structs.asdict(ahead), state=choosers.sealer.seal(after)
    )
