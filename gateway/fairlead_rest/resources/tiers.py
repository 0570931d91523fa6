"""REST resources `GET /v1/tiers` and `POST /v1/tier`: latency tiers, and the choice of the tier for the next answer of
a conversation.
"""

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
    """Latency tier."""

    name: str
    max_latency_ms: int | None
    """Latency limit in milliseconds; null if the tier has no limit."""
    quantile: str
    """Quantile of a tool's durations that is compared with the limit, such as `p95`."""
    default: bool
    """Whether clients that name no tier get this tier. If no tier is the default, such clients see all tools."""
    endpoint: str
    """Path of the MCP endpoint with the tools of the tier."""
    tools: int
    """Number of tools that the tier shows."""
    hidden: dict[str, str]
    """Reasons why tools are hidden, by exposed name."""


class TierList(msgspec.Struct, frozen=True, rename="camel"):
    """Tiers, the fastest first."""

    tiers: list[TierDocument]
    decided_at: str
    """Time of the oldest decision (RFC 3339); empty if nothing was measured."""


class TierRequest(Turn, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Turn of a conversation, with the state from the previous answer."""

    state: str = ""
    """`state` of the previous answer; empty at the beginning of a conversation."""
    speech_turn_ms: Annotated[int, Meta(ge=0)] = SPEECH_TURN_MS
    """Longest wait for a tool, in milliseconds, that people do not notice as a pause in a speech-to-speech session."""


class TierAnswer(Choice, frozen=True, kw_only=True, rename="camel"):
    """Chosen tier with the reason, the expected wait, and the state for the next request."""

    expected_ms: int | None
    """Median duration of the tier's slowest tool, measured or else declared; null if no duration is known."""
    filler: bool
    """Whether the agent should say a few words first ("let me see …"), because the expected wait is long."""
    route: str
    """`direct`: the tools fit into a turn of a speech-to-speech model. `cascaded`: use a text model, and speech
    synthesis for its answer.
    """
    state: str
    """State of the conversation, to send with the next request."""


def router(context: RestContext) -> APIRouter:
    """Make the routes of `/v1/tiers` and `/v1/tier`."""
    routes = APIRouter(prefix="/v1", tags=["tiers"])

    @routes.get("/tiers", **describe_route("List tiers", TierList, examples.TIERS))
    async def list_tiers(request: Request) -> Response:
        catalog = context.catalog(request)
        return await context.answer(lambda: list_visible(catalog))

    @routes.post(
        "/tier",
        **describe_route("Choose the tier of an answer", TierAnswer, examples.TIER_CHOSEN, TierRequest, examples.TIER),
    )
    async def choose_tier(request: Request) -> Response:
        catalog = context.catalog(request)
        tier_request = decode(await context.read(request), TierRequest)
        return await context.answer(lambda: choose(context, catalog, tier_request))

    return routes


def list_visible(catalog: SubjectCatalog) -> TierList:
    """List the tiers of the subject, with the tools that each shows and hides."""
    snapshot, visible_tiers, default = catalog.snapshot, catalog.tiers, catalog.default_tier
    documents = []
    for tier in by_speed(snapshot.rules.tiers):
        if tier.name not in visible_tiers:
            continue
        view = catalog.view(tier.name)
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


def choose(context: RestContext, catalog: SubjectCatalog, tier_request: TierRequest) -> TierAnswer:
    """Choose the tier of an answer. Raises Problem for a state that this gateway did not issue."""
    choosers = context.services.choosers
    chooser = choosers.of(catalog.snapshot.rules)
    if chooser is None:
        raise Problem(UNKNOWN_TIER, "this installation has no latency tier: create a LatencyTier")
    try:
        state = choosers.sealer.open(tier_request.state)
    except ForgedState as error:
        raise Problem(
            INVALID_ARGUMENTS, f"the field `state` is invalid: {error}; send the request again with an empty `state`"
        ) from error
    choice, new_state = chooser.choose(tier_request, state, choosers.clock())
    choice = limit_tier(choice, catalog)
    view = catalog.view(choice.tier)
    expectation = outlook(view, catalog.snapshot, choice.limit_ms, tier_request.speech_turn_ms)
    return TierAnswer(
        **msgspec.structs.asdict(choice), **msgspec.structs.asdict(expectation), state=choosers.sealer.seal(new_state)
    )
