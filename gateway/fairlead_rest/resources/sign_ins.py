"""REST resource `/v1/servers/{server}/sign-in`: makes links at which callers sign in, tells the outcome, and takes keys
that callers enter.
"""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Request, Response

from fairlead_api.documents.oauth import UserKeySettings
from fairlead_api.documents.servers import ON_THE_WAY
from fairlead_api.meta import ServerKey
from fairlead_gateway.calls.path.startup import refusal_of
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.sign_in.sign_ins import SignIns
from fairlead_mcp.errors import Timeout
from fairlead_mcp.oauth.entered_keys import UnusableKey
from fairlead_mcp.oauth.errors import SIGN_IN_REQUIRED, GrantFailed
from fairlead_offers.documents import decode
from fairlead_offers.problems import CONNECTION_LOST, FORBIDDEN, INVALID_ARGUMENTS, NOT_FOUND, Problem, unready_problem
from fairlead_rest.context import RestContext
from fairlead_rest.examples import sign_ins as examples
from fairlead_rest.known_servers import find_server
from fairlead_rest.openapi import describe_route
from fairlead_web.bodies import answer


class WantedKey(msgspec.Struct, frozen=True, rename="camel"):
    """Key that each caller enters for a server."""

    description: str
    """Description in words of the server's author; may be empty."""
    help_url: str
    """Page at which a person gets the key; may be empty."""


class EnteredKey(msgspec.Struct, frozen=True):
    """The caller's key for a server."""

    key: str

    def __repr__(self) -> str:
        return "EnteredKey(…)"


class SignInDocument(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The caller's sign-in at one server."""

    server: str
    """Server as `namespace/name`."""
    signed_in: bool
    """Whether the caller has signed in, or entered a key."""
    sign_in_url: str | None
    """Page of the gateway that the caller has to open in a browser; null if no sign-in is open."""
    failure: str | None
    """Why the last attempt failed; null if there was none, or while one is in progress."""
    key: WantedKey | None = None
    """The key that the caller enters at that page or by PUT; absent for a server at which the caller signs in."""


def router(context: RestContext) -> APIRouter:
    """Make the routes of `/v1/servers/{server}/sign-in`."""
    routes = APIRouter(prefix="/v1", tags=["servers"])

    def find_sign_in(request: Request, server: str) -> tuple[Identity, ServerKey]:
        catalog = context.catalog(request)
        key = find_server(catalog, server).key
        try:
            context.sign_ins.require_store(key)
        except GrantFailed as error:
            raise _problem(error) from error
        if not context.sign_ins.requires(key):
            entry = next((each for each in catalog.unready_servers() if each.key == key), None)
            if entry is not None:  # the server has never answered, so it is unknown whether it asks users to sign in
                raise unready_problem(refusal_of(entry, starts=entry.state in ON_THE_WAY))
            raise Problem(NOT_FOUND, f"{key} does not ask users to sign in")
        return catalog.identity, key

    async def document(identity: Identity, key: ServerKey) -> SignInDocument:
        signed_in = await context.sign_ins.is_signed_in(identity, key)
        pending = None if signed_in else context.sign_ins.of_caller(identity, key)
        key_document = _key_document(context.sign_ins.key_of(key))
        if pending is None:
            return SignInDocument(str(key), signed_in, None, None, key_document)
        url = context.sign_ins.site.link(key, pending.id)
        return SignInDocument(str(key), signed_in, url, pending.failure or None, key_document)

    @routes.post(
        "/servers/{server:path}/sign-in",
        **describe_route("Get a link at which the caller signs in at a server", SignInDocument, examples.OPEN),
    )
    async def ask(request: Request, server: str) -> Response:
        identity, key = find_sign_in(request, server)
        try:
            await context.sign_ins.ask(identity, key)
        except GrantFailed as error:
            raise _problem(error) from error
        except Timeout as error:
            raise Problem(CONNECTION_LOST, str(error)) from error
        return answer(await document(identity, key))

    @routes.get(
        "/servers/{server:path}/sign-in",
        **describe_route("Show whether the caller is signed in at a server", SignInDocument, examples.STATE),
    )
    async def show(request: Request, server: str) -> Response:
        return answer(await document(*find_sign_in(request, server)))

    @routes.put(
        "/servers/{server:path}/sign-in",
        **describe_route(
            "Enter the caller's key for a server", SignInDocument, examples.ENTERED, EnteredKey, examples.KEY
        ),
    )
    async def enter(request: Request, server: str) -> Response:
        entered_key = decode(await context.read(request), EnteredKey)
        identity, key = find_sign_in(request, server)
        await _enter_key(context.sign_ins, identity, key, entered_key)
        context.guard.record_grant_made(request.scope, identity, key, "key")
        return answer(await document(identity, key))

    return routes


async def _enter_key(sign_ins: SignIns, identity: Identity, server: ServerKey, entered_key: EnteredKey) -> None:
    """Store a key. Raises Problem, whose text does not quote the key."""
    if sign_ins.key_of(server) is None:
        raise Problem(INVALID_ARGUMENTS, f"users sign in at {server} by a link, and enter no key: ask without a key")
    try:
        await sign_ins.enter_key(identity, server, entered_key.key)
    except UnusableKey as error:
        raise Problem(INVALID_ARGUMENTS, str(error)) from error
    except GrantFailed as error:
        raise _problem(error) from error


def _key_document(key: UserKeySettings | None) -> WantedKey | None:
    return None if key is None else WantedKey(key.description, key.help_url)


def _problem(error: GrantFailed) -> Problem:
    """The problem document of a sign-in that cannot be opened, or of a key that cannot be stored."""
    return Problem(FORBIDDEN if error.cause == SIGN_IN_REQUIRED else CONNECTION_LOST, str(error))
