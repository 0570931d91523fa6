"""REST resource `/v1/accounts`: the accounts that persons have at servers, by grants that they made there.

Each person sees and ends their own accounts; administrators see and end all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Query, Request, Response

from fairlead_api.meta import ServerKey
from fairlead_gateway.core.identity import Identity
from fairlead_gateway.grants.accounts import Accounts, ServerAccount
from fairlead_gateway.identity.persons import person_of
from fairlead_mcp.oauth.stored_grant import GrantStoreError
from fairlead_offers.problems import FORBIDDEN, NOT_KEPT, UNKNOWN_ACCOUNT, UNREADABLE, Problem
from fairlead_rest.context import RestContext
from fairlead_rest.examples import accounts as examples
from fairlead_rest.log_access import ADMINISTRATORS, may_read
from fairlead_rest.openapi import describe_route
from fairlead_web.bodies import answer


class AccountFacts(msgspec.Struct, frozen=True, rename="camel"):
    """Facts about an account, without tokens."""

    server: str
    """`NAMESPACE/NAME`."""
    person: str
    """Principal whose calls act by this account."""
    holder: str
    """The person at the person's identity provider: issuer and subject; `local` on a laptop."""
    kind: Literal["grant", "key"]
    """`grant` of an authorization server, or `key` that the person entered."""
    issuer: str
    """Authorization server that gave the grant; empty for a key, and if the stored grant cannot be read."""
    scopes: list[str]
    since: str | None
    """Time of the grant (RFC 3339); null if unknown."""
    renewed: str | None
    """Time of the last renewal (RFC 3339); null if there was none."""
    until: str | None
    """End of the grant (RFC 3339); null if the authorization server sets none."""
    unused_until: str | None
    """Time at which the gateway ends the grant if no call uses it until then (RFC 3339); null if it does not."""


class AccountList(msgspec.Struct, frozen=True):
    """Accounts, sorted by server."""

    accounts: list[AccountFacts]


class EndedAccountFacts(msgspec.Struct, frozen=True):
    """An account that has ended."""

    account: AccountFacts
    revoked: bool
    """Whether the authorization server revoked the grant too. If not, only the gateway has forgotten it: end it in the
    settings of the provider."""


def router(context: RestContext) -> APIRouter:
    """Make the routes of `/v1/accounts`."""
    routes = APIRouter(prefix="/v1", tags=["accounts"])

    def require_accounts() -> Accounts:
        accounts = context.administration.accounts
        if accounts is None:
            raise Problem(NOT_KEPT, "this gateway stores no grants of persons: see FAIRLEAD_GRANTS_DIRECTORY")
        return accounts

    @routes.get("/accounts", **describe_route("List accounts at servers", AccountList, examples.ACCOUNTS))
    async def list_accounts(
        request: Request,
        everybody: Annotated[bool, Query(description="Accounts of all persons; for administrators.")] = False,
    ) -> Response:
        identity = context.catalog(request).identity
        accounts = require_accounts()
        if everybody and not may_read(context, request, identity):
            raise Problem(FORBIDDEN, f"only administrators may list the accounts of others; {ADMINISTRATORS}")
        with _store_problems():
            listed = await (accounts.everybodys() if everybody else accounts.of(_require_person(identity)))
        return answer(AccountList([facts_of(account, accounts.unused_until(account)) for account in listed]))

    @routes.delete(
        "/accounts/{namespace}/{name}",
        **describe_route("End an account and revoke its grant", EndedAccountFacts, examples.ENDED),
    )
    async def end_account(
        request: Request,
        namespace: str,
        name: str,
        person: Annotated[str | None, Query(description="Person of the account; for administrators.")] = None,
    ) -> Response:
        identity = context.catalog(request).identity
        accounts = require_accounts()
        own = person_of(identity) if person is not None else _require_person(identity)
        wanted = own if person is None else person.encode("utf-8", "surrogatepass")
        if wanted != own and not may_read(context, request, identity):
            raise Problem(FORBIDDEN, f"only administrators may end the accounts of others; {ADMINISTRATORS}")
        server = ServerKey(namespace, name)
        with _store_problems():
            ended = await accounts.end(server, wanted)
        if ended is None:
            whose = "you have" if wanted == own else "this person has"
            raise Problem(UNKNOWN_ACCOUNT, f"{whose} no account at {server}: GET /v1/accounts lists the accounts")
        facts = facts_of(ended.account, 0.0)
        context.guard.record_change(request.scope, "accounts/revoke", str(server), server, f"of {facts.person}")
        return answer(EndedAccountFacts(facts, ended.revoked))

    return routes


def facts_of(account: ServerAccount, unused_until: float) -> AccountFacts:
    """Facts about an account that are not secret. `unused_until` is in seconds since the epoch; 0: never."""
    person = account.person.decode("utf-8", "replace")
    grant = account.grant
    if grant is None:
        return AccountFacts(str(account.server), person, "", "grant", "", [], None, None, None, None)
    return AccountFacts(
        str(account.server),
        person,
        grant.holder,
        "key" if grant.user_key else "grant",
        grant.issuer,
        sorted(grant.scopes),
        _time_of(grant.granted_at),
        _time_of(grant.renewed_at),
        _time_of(grant.expires_at),
        _time_of(unused_until),
    )


def _require_person(identity: Identity) -> bytes:
    """The caller's person. Raises Problem for callers that are not persons."""
    person = person_of(identity)
    if not person:
        raise Problem(
            FORBIDDEN,
            "accounts belong to persons, and the gateway cannot tell who calls: call with a token of its identity "
            "provider or an API key; a gateway without authentication has to listen on 127.0.0.1 alone",
        )
    return person


def _time_of(seconds: float) -> str | None:
    """RFC 3339 time; None for 0, and for a number outside of the calendar."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if seconds else None
    except (ValueError, OverflowError, OSError):
        return None


@contextlib.contextmanager
def _store_problems() -> Iterator[None]:
    """Context that converts a failure of the store to a problem."""
    try:
        yield
    except GrantStoreError as error:
        raise Problem(UNREADABLE, str(error)) from error
