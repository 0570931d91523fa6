"""`/v1/servers/{server}/held` and `…/approve`: definitions that wait for an approval, and giving it.

For administrators, who see of them what `fairlead diff` shows. An approval names the hash of what somebody has read,
and the operator, which fetches it, lets exactly that through. Where the installation does not take approvals from
gateways, the answer has the command that does it instead.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
from fastapi import APIRouter, Query, Request, Response

from fairlead_api.documents.pins import GivenApproval, Pinned, Pins
from fairlead_api.meta import ServerKey
from fairlead_gateway.catalog.pins import PinsUnreadable
from fairlead_offers.documents import decode, encode
from fairlead_offers.problems import FORBIDDEN, NOT_HELD, UNREADABLE, Problem
from fairlead_offers.workers.heavy_work import with_pauses
from fairlead_rest.context import RestContext
from fairlead_rest.examples import held as examples
from fairlead_rest.known_servers import find_server
from fairlead_rest.log_access import admit
from fairlead_rest.openapi import describe_route
from fairlead_tools.definitions.difference import HeldChange, held_change
from fairlead_tools.definitions.printable import fit
from fairlead_web.bodies import answer

MOST_AT_ONCE: Final = 100
"""Definitions of one answer."""
DEFAULT_AT_ONCE: Final = 20
_WHAT: Final = "definitions that are held back are"


class PastApproval(msgspec.Struct, frozen=True):
    """One approval that was given."""

    at: str
    """RFC 3339."""
    by: str
    """Empty where nobody said."""
    hash: str
    definitions: int
    """Number of definitions that it let through."""


class HeldDocument(msgspec.Struct, frozen=True):
    """Held-back definitions of one server with `pin: true`."""

    server: str
    """`namespace/name`."""
    hash: str | None
    """Approves everything that is held back now, in these bytes; null where nothing is."""
    total: int
    """Number of definitions that are held back."""
    approvable: bool
    """Whether this gateway takes approvals; else `command` gives one."""
    command: str | None
    """Command that approves everything, for users who may edit the McpServer; null where nothing is held back."""
    definitions: list[HeldChange]
    """Those from `offset` on."""
    approvals: list[PastApproval]
    """The last ones, newest first."""


class ApproveRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An approval."""

    hash: str
    """`hash` of the document, or of one of its definitions."""


class ApprovalAsked(msgspec.Struct, frozen=True, rename="camel"):
    """An approval that waits for the operator to fetch it; in force once the definitions are held back no more."""

    server: str
    """`namespace/name`."""
    hash: str
    definitions: list[str]
    """Kind and name of what it is for."""
    held: str
    """Hash of everything that was held back when it was asked."""
    operator_seen_at: str | None
    """When an operator last asked this gateway for requests, RFC 3339; null: none has."""


def router(context: RestContext) -> APIRouter:
    """The resources `/v1/servers/{server}/held` and `/v1/servers/{server}/approve`."""
    services = context.services
    routes = APIRouter(prefix="/v1", tags=["servers"])

    async def pins_of(request: Request, server: str) -> tuple[ServerKey, Pins | None]:
        seen = context.seen(request)
        admit(context, request, seen.identity, _WHAT)
        key = find_server(seen, server).key
        try:
            return key, await context.administration.pins.read(key)
        except PinsUnreadable as error:
            raise Problem(UNREADABLE, str(error)) from error

    @routes.get(
        "/servers/{server:path}/held",
        **describe_route("Show definitions that wait for an approval", HeldDocument, examples.HELD),
    )
    async def show_held(
        request: Request,
        server: str,
        offset: Annotated[int, Query(ge=0, description="So many definitions are left out.")] = 0,
        limit: Annotated[int, Query(ge=1, le=MOST_AT_ONCE)] = DEFAULT_AT_ONCE,
    ) -> Response:
        key, pins = await pins_of(request, server)
        made = services.work.do(
            lambda: encode(held_document(key, pins, offset, limit, approvable=context.administration.approvals))
        )
        return answer(await made)

    @routes.post(
        "/servers/{server:path}/approve",
        status_code=202,
        **describe_route(
            "Approve definitions that are held back",
            ApprovalAsked,
            examples.ASKED,
            ApproveRequest,
            examples.APPROVE,
            status=202,
        ),
    )
    async def approve(request: Request, server: str) -> Response:
        wanted = decode(await context.read(request), ApproveRequest).hash
        key, pins = await pins_of(request, server)
        held = await services.work.do(lambda: approved_by(wanted, pins))
        if not held:
            raise Problem(NOT_HELD, f"nothing of {key} that is held back now has that hash: look at it again")
        if not context.administration.approvals:
            command = command_for(key, wanted)
            raise Problem(FORBIDDEN, f"this gateway takes no approvals (FAIRLEAD_GATEWAY_APPROVALS); run {command}")
        identity = context.seen(request).identity
        names = [f"{change.sort} {fit(change.name)}".strip() for change in held]
        context.administration.requests.ask_approval(
            key, wanted, "" if context.guard.identities.open else identity.principal
        )
        context.guard.record_change(request.scope, "definitions/approve", wanted, key, ", ".join(names))
        asked_at = context.administration.requests.asked_at
        at = None if asked_at is None else datetime.fromtimestamp(asked_at, UTC).isoformat(timespec="milliseconds")
        everything = "" if pins is None else pins.held_hash
        return answer(ApprovalAsked(str(key), wanted, names, everything, at), 202)

    return routes


def held_document(key: ServerKey, pins: Pins | None, offset: int, limit: int, *, approvable: bool) -> HeldDocument:
    """The document about some of the definitions. Not in the loop."""
    held, past = ((), ()) if pins is None else (pins.held, pins.approvals)
    hash_ = None if pins is None or not held else pins.held_hash
    shown = [] if pins is None else [held_change(change, pins) for change in with_pauses(held[offset : offset + limit])]
    return HeldDocument(
        str(key),
        hash_,
        len(held),
        approvable,
        None if hash_ is None else command_for(key, hash_),
        shown,
        [_past(change) for change in past],
    )


def approved_by(approval: str, pins: Pins | None) -> tuple[Pinned, ...]:
    """The definitions that an approval is for; none where it is for other bytes than those that are held back now."""
    if pins is None or not pins.held:
        return ()
    if approval == pins.held_hash:
        return pins.held
    return tuple(change for change in pins.held if change.approval == approval)


def command_for(key: ServerKey, approval: str) -> str:
    """Command line that approves exactly what has that hash."""
    return f"fairlead approve {key} --hash {approval}"


def _past(approval: GivenApproval) -> PastApproval:
    return PastApproval(approval.at, approval.by, approval.hash, approval.definitions)
