"""REST resource `/v1/keys`: principals make, list and revoke API keys for themselves, if their groups may do so."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Annotated, Final

import msgspec
from fastapi import APIRouter, Query, Request, Response

from fairlead_gateway.core.identity import Identity
from fairlead_gateway.identity.key_format import PREFIX, KeyRecord
from fairlead_gateway.identity.made_keys import KeysRefused, KeysUnwritable, MadeKeys
from fairlead_offers.documents import decode
from fairlead_offers.problems import FORBIDDEN, REFUSED, UNKNOWN_KEY, UNREADABLE, Problem
from fairlead_rest.context import RestContext
from fairlead_rest.examples import keys as examples
from fairlead_rest.openapi import describe_route
from fairlead_web.bodies import answer

DEFAULT_DAYS: Final = 30


class KeyFacts(msgspec.Struct, frozen=True):
    """Facts about a key without the secret, which is not stored."""

    id: str
    begins: str
    """First characters of the key, which identify it but are not secret."""
    name: str
    created: str
    """Time of creation (RFC 3339)."""
    expires: str
    """Time of expiry (RFC 3339)."""
    agent: str | None
    """Name of the agent in policies; null if the principal has none."""
    principal: str
    """Principal that made the key."""


class KeyList(msgspec.Struct, frozen=True):
    """Valid keys, oldest first."""

    keys: list[KeyFacts]
    days: int
    """Maximum lifetime of a key in days."""
    each: int
    """Maximum number of keys per principal."""


class KeyRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request for a key."""

    name: str
    """Name of the key in lists; choose a name that says where the key is used."""
    days: int = DEFAULT_DAYS
    """Lifetime in days."""


class MadeKey(msgspec.Struct, frozen=True):
    """A new key."""

    key: str
    """The key, which is shown only in this answer."""
    facts: KeyFacts


def _refusal_reason(identity: Identity) -> str:
    """Why a principal may make no keys."""
    if identity.resource:
        return f"your token is for {identity.resource} alone, and a key would be valid everywhere"
    if identity.issued_here:
        return "your token is that of a program that you signed in, and a key would outlive that: use the console"
    return "your credential is itself such a key" if identity.is_created_key else "see FAIRLEAD_KEY_MAKERS"


def router(context: RestContext) -> APIRouter:
    """Make the routes of `/v1/keys`."""
    routes = APIRouter(prefix="/v1", tags=["keys"])

    def require_keys(identity: Identity) -> MadeKeys:
        keys = context.administration.keys
        if keys is None:
            file = ", or put keys into a file: fairlead keys create NAME --file keys.json"
            hint = f"see FAIRLEAD_KEY_MAKERS{file if context.administration.local else ''}"
            raise Problem(FORBIDDEN, f"making keys is turned off on this gateway: {hint}")
        if not context.makes_keys(identity) and not context.administers(identity):
            raise Problem(FORBIDDEN, f"you may not make keys: {_refusal_reason(identity)}")
        return keys

    @routes.get("/keys", **describe_route("List keys", KeyList, examples.KEYS))
    async def list_keys(
        request: Request,
        everybody: Annotated[bool, Query(description="Keys of all principals; for administrators.")] = False,
    ) -> Response:
        identity = context.catalog(request).identity
        keys = require_keys(identity)
        if everybody and not context.administers(identity):
            hint = context.administration.setting_hint
            raise Problem(FORBIDDEN, f"only administrators may list the keys of other principals; {hint}")
        with _key_problems(REFUSED):
            records = await (keys.all() if everybody else keys.of(identity))
        return answer(KeyList([facts_of(record) for record in records], keys.days, keys.each))

    @routes.post(
        "/keys",
        status_code=201,
        **describe_route("Make a key for the caller", MadeKey, examples.MADE, KeyRequest, examples.MAKE, status=201),
    )
    async def make_key(request: Request) -> Response:
        key_request = decode(await context.read(request), KeyRequest)
        identity = context.catalog(request).identity
        keys = require_keys(identity)
        if not context.makes_keys(identity):
            raise Problem(FORBIDDEN, f"you may not make keys: {_refusal_reason(identity)}")
        with _key_problems(REFUSED):
            key, record = await keys.make(identity, key_request.name, key_request.days)
        context.guard.record_change(request.scope, "keys/create", record.id, None, f"until {record.expires}")
        response = answer(MadeKey(key, facts_of(record)), 201)
        response.headers["cache-control"] = "no-store"
        return response

    @routes.delete("/keys/{key}", **describe_route("Revoke a key by its id", KeyFacts, examples.REVOKED))
    async def revoke_key(request: Request, key: str) -> Response:
        identity = context.catalog(request).identity
        keys = require_keys(identity)
        with _key_problems(UNKNOWN_KEY):
            record = await keys.revoke(identity, key, of_anyone=context.administers(identity))
        facts = facts_of(record)
        context.guard.record_change(request.scope, "keys/revoke", record.id, None, f"of {facts.principal}")
        return answer(facts)

    return routes


def facts_of(record: KeyRecord) -> KeyFacts:
    """Facts about a key that are not secret."""
    name, principal = ("", "") if record.maker is None else (record.maker.name, record.maker.principal)
    begins = f"{PREFIX}{record.id}_"
    return KeyFacts(record.id, begins, name, record.created, record.expires, record.agent or None, principal)


@contextlib.contextmanager
def _key_problems(code: str) -> Iterator[None]:
    """Context that converts a refusal by the key store to a problem with `code`, and failed writing to UNREADABLE."""
    try:
        yield
    except KeysRefused as error:
        raise Problem(code, str(error)) from error
    except KeysUnwritable as error:
        raise Problem(UNREADABLE, str(error)) from error
