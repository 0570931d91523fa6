"""REST resource `/v1/accounts`: the accounts that users have at servers, by grants that they made there.

Each person sees and ends their own accounts; administrators see and end all.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request, Response

from fairlead_api.meta import ServerKey
from fairlead_gateway.grants.accounts import Accounts
from fairlead_offers.problems import NOT_KEPT, UNKNOWN_ACCOUNT, Problem
from fairlead_rest.account_facts import AccountFacts, EndedAccountFacts, end_and_record, facts_of
from fairlead_rest.context import RestContext
from fairlead_rest.examples import accounts as examples
from fairlead_rest.openapi import describe_route
from fairlead_rest.persons import chosen_person, listed_person, store_problems
from fairlead_web.bodies import answer


class AccountList(msgspec.Struct, frozen=True):
    """Accounts, sorted by server."""

    accounts: list[AccountFacts]


def router(context: RestContext) -> APIRouter:
    """Make the routes of `/v1/accounts`."""
    routes = APIRouter(prefix="/v1", tags=["accounts"])

    def require_accounts() -> Accounts:
        accounts = context.administration.accounts
        if accounts is None:
            raise Problem(NOT_KEPT, "this gateway stores no grants of users: see FAIRLEAD_GRANTS_DIRECTORY")
        return accounts

    @routes.get("/accounts", **describe_route("List accounts at servers", AccountList, examples.ACCOUNTS))
    async def list_accounts(
        request: Request,
        everybody: Annotated[bool, Query(description="Accounts of all users; for administrators.")] = False,
    ) -> Response:
        accounts = require_accounts()
        person = listed_person(context, request, "accounts", everybody=everybody)
        with store_problems():
            accounts_to_list = await (accounts.of_everybody() if person is None else accounts.of(person))
        return answer(AccountList([facts_of(account, accounts.unused_until(account)) for account in accounts_to_list]))

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
        person_id = chosen_person(context, request, "accounts", person)
        server = ServerKey(namespace, name)
        ended_account = await end_and_record(context, request, accounts, server, person_id)
        if ended_account is None:
            subject = "you have" if person is None else "this person has"
            raise Problem(UNKNOWN_ACCOUNT, f"{subject} no account at {server}: GET /v1/accounts lists the accounts")
        return answer(ended_account)

    return routes
