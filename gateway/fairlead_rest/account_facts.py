"""Facts about accounts that users have at servers; ends an account, and records that in the audit log."""

from __future__ import annotations

from typing import Literal

import msgspec
from starlette.requests import Request

from fairlead_api.meta import ServerKey
from fairlead_gateway.grants.accounts import Accounts, ServerAccount
from fairlead_gateway.identity.persons import person_of
from fairlead_rest.context import RestContext
from fairlead_rest.persons import store_problems, time_of


class AccountFacts(msgspec.Struct, frozen=True, rename="camel"):
    """Facts about an account, without tokens."""

    server: str
    """`NAMESPACE/NAME`."""
    person: str
    """Principal whose calls use this account."""
    holder: str
    """The person's issuer and subject; `local` at a gateway that serves only its own machine."""
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


class EndedAccountFacts(msgspec.Struct, frozen=True):
    """An account that has ended."""

    account: AccountFacts
    revoked: bool
    """Whether the authorization server revoked the grant too. If not, only the gateway has deleted it: end it in the
    settings of the provider."""


async def end_and_record(
    context: RestContext, request: Request, accounts: Accounts, server: ServerKey, person: bytes
) -> EndedAccountFacts | None:
    """End an account, and record that in the audit log; None if there is none. Raises Problem."""
    is_own = person == person_of(context.catalog(request).identity)
    reason = f"you have signed out at {server}" if is_own else f"your sign-in at {server} was ended by an administrator"
    with store_problems():
        ended = await accounts.end(server, person, reason)
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
