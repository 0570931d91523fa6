"""REST resource `/v1/sign-ins`: the clients that users have signed in, with the gateway as the authorization server.

Each person sees and ends their own sign-ins; administrators see and end all.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request, Response

from fairlead_gateway.identity.client_sign_ins import ClientSignIn, ClientSignIns
from fairlead_offers.problems import NOT_KEPT, UNKNOWN_SIGN_IN, Problem
from fairlead_rest.account_facts import EndedAccountFacts, end_and_record
from fairlead_rest.context import RestContext
from fairlead_rest.examples import client_sign_ins as examples
from fairlead_rest.openapi import describe_route
from fairlead_rest.persons import chosen_person, listed_person, store_problems, time_of
from fairlead_web.bodies import answer

_RECORDS = "sign-ins"


class ClientSignInFacts(msgspec.Struct, frozen=True, rename="camel"):
    """Facts about the sign-in of a client, without tokens."""

    id: str
    person: str
    """Principal whose calls the client makes."""
    holder: str
    """The person at the provider: issuer and subject."""
    client: str
    """Id of the client."""
    name: str
    """Name of the client, as the client states it; empty if unknown."""
    host: str
    """Host of the client's document; empty for a client without a document."""
    redirect_host: str
    """Where the client got its code: a host, `localhost` for the person's own machine, or the client's own scheme."""
    agent: str | None
    """Agent in policies; null for a client that registered itself."""
    resource: str
    """URL for which the client's tokens are valid, including all paths below it."""
    scopes: list[str]
    began: str | None
    """Time of the sign-in (RFC 3339)."""
    used: str | None
    """Time at which the client last got an access token (RFC 3339)."""
    ends: str | None
    """Time at which the person has to sign in again (RFC 3339)."""


class ClientSignInList(msgspec.Struct, frozen=True, rename="camel"):
    """Sign-ins of clients, sorted by person; the last one used first."""

    sign_ins: list[ClientSignInFacts]


class EndedSignIns(msgspec.Struct, frozen=True, rename="camel"):
    """All sign-ins of a person, which have ended."""

    sign_ins: list[ClientSignInFacts]
    accounts: list[EndedAccountFacts]
    """Accounts at servers that have ended too; empty unless the request asked for that."""


def router(context: RestContext) -> APIRouter:
    """Make the routes of `/v1/sign-ins`."""
    routes = APIRouter(prefix="/v1", tags=["accounts"])

    def require_sign_ins() -> ClientSignIns:
        sign_ins = context.administration.client_sign_ins
        if sign_ins is None:
            raise Problem(
                NOT_KEPT, "no client signs in by this gateway: see authorizationServer in the file of FAIRLEAD_IDENTITY"
            )
        return sign_ins

    def record(request: Request, sign_in: ClientSignInFacts) -> None:
        context.guard.record_change(request.scope, "sign-ins/revoke", sign_in.client, None, f"of {sign_in.person}")

    @routes.get(
        "/sign-ins", **describe_route("List clients that users have signed in", ClientSignInList, examples.SIGN_INS)
    )
    async def list_sign_ins(
        request: Request,
        everybody: Annotated[bool, Query(description="Sign-ins of all users; for administrators.")] = False,
    ) -> Response:
        sign_ins = require_sign_ins()
        person = listed_person(context, request, _RECORDS, everybody=everybody)
        with store_problems():
            sign_ins_to_list = await (sign_ins.of_everybody() if person is None else sign_ins.of(person))
        return answer(ClientSignInList([_facts_of(sign_in) for sign_in in sign_ins_to_list]))

    @routes.delete(
        "/sign-ins/{sign_in}",
        **describe_route("End the sign-in of a client", ClientSignInFacts, examples.ENDED),
    )
    async def end_sign_in(
        request: Request,
        sign_in: str,
        person: Annotated[str | None, Query(description="Person of the sign-in; for administrators.")] = None,
    ) -> Response:
        sign_ins = require_sign_ins()
        person_id = chosen_person(context, request, _RECORDS, person)
        with store_problems():
            ended_sign_in = await sign_ins.end(person_id, sign_in)
        if ended_sign_in is None:
            subject = "you have" if person is None else "this person has"
            raise Problem(UNKNOWN_SIGN_IN, f"{subject} no such sign-in: GET /v1/sign-ins lists the sign-ins")
        facts = _facts_of(ended_sign_in)
        record(request, facts)
        return answer(facts)

    @routes.delete("/sign-ins", **describe_route("End all sign-ins of a person", EndedSignIns, examples.ENDED_ALL))
    async def end_all_sign_ins(
        request: Request,
        person: Annotated[str | None, Query(description="Person of the sign-ins; for administrators.")] = None,
        accounts: Annotated[bool, Query(description="End the person's accounts at servers too.")] = False,
    ) -> Response:
        sign_ins = require_sign_ins()
        person_id = chosen_person(context, request, _RECORDS, person)
        ended_sign_ins: list[ClientSignInFacts] = []
        with store_problems():
            async for sign_in in sign_ins.end_all(person_id):
                facts = _facts_of(sign_in)
                record(request, facts)
                ended_sign_ins.append(facts)
        return answer(EndedSignIns(ended_sign_ins, await end_accounts(request, person_id) if accounts else []))

    async def end_accounts(request: Request, person: bytes) -> list[EndedAccountFacts]:
        accounts = context.administration.accounts
        assert accounts is not None, "a gateway with sign-ins of clients stores grants"
        with store_problems():
            person_accounts = await accounts.of(person)
        ended_accounts = [
            await end_and_record(context, request, accounts, account.server, person) for account in person_accounts
        ]
        return [account for account in ended_accounts if account is not None]

    return routes


def _facts_of(sign_in: ClientSignIn) -> ClientSignInFacts:
    return ClientSignInFacts(
        sign_in.id,
        sign_in.person.decode("utf-8", "replace"),
        sign_in.holder,
        sign_in.client_id,
        sign_in.name,
        sign_in.host,
        sign_in.redirect_host,
        sign_in.agent,
        sign_in.resource,
        sorted(sign_in.scopes),
        time_of(sign_in.began_at),
        time_of(sign_in.used_at),
        time_of(sign_in.ends_at),
    )
