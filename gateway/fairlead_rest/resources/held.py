"""REST resources `/v1/servers/{server}/held` and `…/approve`: shows and approves definitions that are held back.

Both resources are for administrators, who see the same differences as in `fairlead diff`. An approval contains the hash
of the definitions that the administrator has read. The operator fetches the approval, and publishes exactly the
definitions with this hash. If the installation does not accept approvals from gateways, the answer has the command
that approves the definitions instead.
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

MAX_LIMIT: Final = 100
"""Maximum number of definitions in an answer."""
DEFAULT_LIMIT: Final = 20
_SUBJECT: Final = "definitions that are held back are"


class PastApproval(msgspec.Struct, frozen=True):
    """Past approval."""

    at: str
    """Time of the approval (RFC 3339)."""
    by: str
    """Principal that approved; empty if unknown."""
    hash: str
    definitions: int
    """Number of approved definitions."""


class HeldDocument(msgspec.Struct, frozen=True):
    """Definitions of one server with `pin: true` that are held back."""

    server: str
    """Server as `namespace/name`."""
    hash: str | None
    """Hash that approves all definitions that are currently held back; null if there are none."""
    total: int
    """Number of definitions that are held back."""
    approvable: bool
    """Whether this gateway accepts approvals; otherwise use `command`."""
    command: str | None
    """Command that approves all definitions, for users who may edit the McpServer; null if nothing is held back."""
    definitions: list[HeldChange]
    """Definitions that are held back, from `offset` on."""
    approvals: list[PastApproval]
    """Last approvals, the newest first."""
    pinned: bool = True
    """Whether definitions of the server are pinned; false without `pin: true`, and until its first listing."""


class ApproveRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of an approval."""

    hash: str
    """`hash` of the document, or of one of its definitions."""


class ApprovalAsked(msgspec.Struct, frozen=True, rename="camel"):
    """Requested approval, which the operator will fetch. The approval is applied when the definitions are no longer
    held back.
    """

    server: str
    """Server as `namespace/name`."""
    hash: str
    definitions: list[str]
    """Kind and name of the definitions to approve."""
    held: str
    """Hash of all definitions that were held back at the time of the request."""
    operator_seen_at: str | None
    """Time at which an operator last fetched requests from this gateway (RFC 3339); null: never."""


def router(context: RestContext) -> APIRouter:
    """Make the routes of `/v1/servers/{server}/held` and `/v1/servers/{server}/approve`."""
    services = context.services
    routes = APIRouter(prefix="/v1", tags=["servers"])

    async def pins_of(request: Request, server: str) -> tuple[ServerKey, Pins | None]:
        catalog = context.catalog(request)
        admit(context, request, catalog.identity, _SUBJECT)
        key = find_server(catalog, server).key
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
        offset: Annotated[int, Query(ge=0, description="Number of definitions to skip.")] = 0,
        limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = DEFAULT_LIMIT,
    ) -> Response:
        key, pins = await pins_of(request, server)
        body = services.work.do(
            lambda: encode(held_document(key, pins, offset, limit, approvable=context.administration.approvals))
        )
        return answer(await body)

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
        approval = decode(await context.read(request), ApproveRequest).hash
        key, pins = await pins_of(request, server)
        held_definitions = await services.work.do(lambda: definitions_to_approve(approval, pins))
        if not held_definitions:
            raise Problem(
                NOT_HELD,
                f"none of the held-back definitions of server {key} has this hash: read the current definitions again",
            )
        if not context.administration.approvals:
            command = command_for(key, approval)
            raise Problem(
                FORBIDDEN, f"this gateway does not accept approvals (FAIRLEAD_GATEWAY_APPROVALS); run {command}"
            )
        identity = context.catalog(request).identity
        names = [f"{change.sort} {fit(change.name)}".strip() for change in held_definitions]
        context.administration.requests.ask_approval(
            key, approval, "" if context.guard.identities.open else identity.principal
        )
        context.guard.record_change(request.scope, "definitions/approve", approval, key, ", ".join(names))
        asked_at = context.administration.requests.asked_at
        at = None if asked_at is None else datetime.fromtimestamp(asked_at, UTC).isoformat(timespec="milliseconds")
        held_hash = "" if pins is None else pins.held_hash
        return answer(ApprovalAsked(str(key), approval, names, held_hash, at), 202)

    return routes


def held_document(key: ServerKey, pins: Pins | None, offset: int, limit: int, *, approvable: bool) -> HeldDocument:
    """Document about definitions from `offset` on. Must not be called in the event loop."""
    held_definitions, approvals = ((), ()) if pins is None else (pins.held, pins.approvals)
    hash_ = None if pins is None or not held_definitions else pins.held_hash
    changes = (
        []
        if pins is None
        else [held_change(change, pins) for change in with_pauses(held_definitions[offset : offset + limit])]
    )
    return HeldDocument(
        str(key),
        hash_,
        len(held_definitions),
        approvable,
        None if hash_ is None else command_for(key, hash_),
        changes,
        [_past_approval(change) for change in approvals],
        pins is not None,
    )


def definitions_to_approve(approval: str, pins: Pins | None) -> tuple[Pinned, ...]:
    """Held-back definitions that an approval with this hash applies to; empty if none of them has the hash."""
    if pins is None or not pins.held:
        return ()
    if approval == pins.held_hash:
        return pins.held
    return tuple(change for change in pins.held if change.approval == approval)


def command_for(key: ServerKey, approval: str) -> str:
    """Command line that approves exactly the definitions with a hash."""
    return f"fairlead approve {key} --hash {approval}"


def _past_approval(approval: GivenApproval) -> PastApproval:
    return PastApproval(approval.at, approval.by, approval.hash, approval.definitions)
