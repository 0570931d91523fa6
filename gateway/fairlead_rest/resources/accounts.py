"""REST resource `/v1/accounts`: the accounts that persons have at servers, by grants that they made there.

Each person sees and ends their own accounts; administrators see and end all.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Query, Request, Response

from fairlead_api.meta import ServerKey
from fairlead_gateway.grants.accounts import Accounts, ServerAccount
from fairlead_offers.problems import NOT_KEPT, UNKNOWN_ACCOUNT, Problem
from fairlead_rest.context import RestContext
from fairlead_rest.examples import accounts as examples
from fairlead_rest.openapi import describe_route
from fairlead_rest.persons import chosen_person, listed_person, store_problems, time_of
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
        accounts = require_accounts()
        person = listed_person(context, request, "accounts", everybody=everybody)
        with store_problems():
            listed = await (accounts.everybodys() if person is None else accounts.of(person))
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
        accounts = require_accounts()
        wanted = chosen_person(context, request, "accounts", person)
        server = ServerKey(namespace, name)
        ended = await end_recorded(context, request, accounts, server, wanted)
        if ended is None:
            whose = "you have" if person is None else "this person has"
            raise Problem(UNKNOWN_ACCOUNT, f"{whose} no account at {server}: GET /v1/accounts lists the accounts")
        return answer(ended)

    return routes


async def end_recorded(
    context: RestContext, request: Request, accounts: Accounts, server: ServerKey, person: bytes
) -> EndedAccountFacts | None:
    """End an account, and record that in the audit log; None if there is none. Raises Problem."""
    with store_problems():
        ended = await accounts.end(server, person)
    if ended is None:
        return None
    facts = facts_of(ended.account, 0.0)
    context.guard.record_change(request.scope, "accounts/revoke", str(server), server, f"of {facts.person}")
    return EndedAccountFacts(facts, ended.revoked)


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
        time_of(grant.granted_at),
        time_of(grant.renewed_at),
        time_of(grant.expires_at),
        time_of(unused_until),
    )
