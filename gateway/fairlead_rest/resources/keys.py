"""`/v1/keys`: API keys that people make for themselves, list and revoke, where their groups may."""

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
from fairlead_rest.log_access import ADMINISTRATORS
from fairlead_rest.openapi import describe_route
from fairlead_web.bodies import answer

DEFAULT_DAYS: Final = 30


class KeyFacts(msgspec.Struct, frozen=True):
    """One made key, without its secret, which is not kept."""

    id: str
    begins: str
    """The characters that the key begins with; they tell it from others and open nothing."""
    name: str
    created: str
    """RFC 3339."""
    expires: str
    """RFC 3339."""
    agent: str | None
    """The name that policies know the holder by."""
    principal: str
    """Principal that made it."""


class KeyList(msgspec.Struct, frozen=True):
    """Made keys that are good, oldest first."""

    keys: list[KeyFacts]
    days: int
    """Longest life of a key, in days."""
    each: int
    """Keys that one principal may have."""


class KeyRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key to be made."""

    name: str
    """Says where it is used, for lists."""
    days: int = DEFAULT_DAYS
    """Its life."""


class MadeKey(msgspec.Struct, frozen=True):
    """A key that was made."""

    key: str
    """The key itself: told now and never again."""
    facts: KeyFacts


def router(context: RestContext) -> APIRouter:
    """The resource `/v1/keys`."""
    routes = APIRouter(prefix="/v1", tags=["keys"])

    def admitted(identity: Identity) -> MadeKeys:
        keys = context.administration.keys
        if keys is None:
            raise Problem(FORBIDDEN, "nobody makes keys here: see FAIRLEAD_KEY_MAKERS")
        if not context.makes_keys(identity) and not context.administers(identity):
            what = "a key that was made here makes no others" if identity.made else "see FAIRLEAD_KEY_MAKERS"
            raise Problem(FORBIDDEN, f"you make no keys here: {what}")
        return keys

    @routes.get("/keys", **describe_route("List keys that were made here", KeyList, examples.KEYS))
    async def list_keys(
        request: Request,
        everybody: Annotated[bool, Query(description="Keys of all principals; for administrators.")] = False,
    ) -> Response:
        identity = context.seen(request).identity
        keys = admitted(identity)
        if everybody and not context.administers(identity):
            raise Problem(FORBIDDEN, f"keys of others are shown to {ADMINISTRATORS}")
        with _answer_codes(REFUSED):
            records = await (keys.all() if everybody else keys.of(identity))
        return answer(KeyList([facts_of(record) for record in records], keys.days, keys.each))

    @routes.post(
        "/keys",
        status_code=201,
        **describe_route("Make a key for oneself", MadeKey, examples.MADE, KeyRequest, examples.MAKE, status=201),
    )
    async def make_key(request: Request) -> Response:
        wanted = decode(await context.read(request), KeyRequest)
        identity = context.seen(request).identity
        keys = admitted(identity)
        if not context.makes_keys(identity):
            raise Problem(FORBIDDEN, "you make no keys here: see FAIRLEAD_KEY_MAKERS")
        with _answer_codes(REFUSED):
            key, record = await keys.make(identity, wanted.name, wanted.days)
        context.guard.record_change(request.scope, "keys/create", record.id, None, f"until {record.expires}")
        made = answer(MadeKey(key, facts_of(record)), 201)
        made.headers["cache-control"] = "no-store"
        return made

    @routes.delete(
        "/keys/{key}", **describe_route("Revoke a key that was made here, by its id", KeyFacts, examples.REVOKED)
    )
    async def revoke_key(request: Request, key: str) -> Response:
        identity = context.seen(request).identity
        keys = admitted(identity)
        with _answer_codes(UNKNOWN_KEY):
            record = await keys.revoke(identity, key, anybodys=context.administers(identity))
        facts = facts_of(record)
        context.guard.record_change(request.scope, "keys/revoke", record.id, None, f"of {facts.principal}")
        return answer(facts)

    return routes


def facts_of(record: KeyRecord) -> KeyFacts:
    """Facts about a made key, none of which opens anything."""
    name, principal = ("", "") if record.maker is None else (record.maker.name, record.maker.principal)
    begins = f"{PREFIX}{record.id}_"
    return KeyFacts(record.id, begins, name, record.created, record.expires, record.agent or None, principal)


@contextlib.contextmanager
def _answer_codes(code: str) -> Iterator[None]:
    """Refusals as problems of that code."""
    try:
        yield
    except KeysRefused as error:
        raise Problem(code, str(error)) from error
    except KeysUnwritable as error:
        raise Problem(UNREADABLE, str(error)) from error
