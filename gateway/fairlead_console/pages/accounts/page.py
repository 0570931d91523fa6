"""The page `/console/accounts`: who granted what to which server, since when and until when, with a button that ends
each account. Administrators see the accounts of all persons.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request, Response

from fairlead_console.context import ConsoleContext, NavigationEntry
from fairlead_console.html import redirect
from fairlead_console.paging import part_of
from fairlead_console.rest_client import RestProblem
from fairlead_offers.problems import FORBIDDEN, NOT_KEPT
from fairlead_rest.resources.accounts import AccountFacts, AccountList, EndedAccountFacts
from fairlead_rest.resources.servers import ServerList

PATH: Final = "/console/accounts"
ENTRY: Final = NavigationEntry("Accounts", PATH, 75)
PER_PAGE: Final = 50
"""Accounts per page of the list."""
_EXPECTED: Final = (NOT_KEPT, FORBIDDEN)
"""Codes of a gateway without a store, and of a visitor without accounts, for which the page has words."""


def router(console: ConsoleContext) -> APIRouter:
    """Make the routes of the page."""
    routes = APIRouter()

    @routes.get(PATH)
    async def list_accounts(request: Request) -> Response:
        visit = console.visit(request)
        everybody = visit.administers and not console.rest.guard.identities.open
        accounts: list[AccountFacts] = []
        why = ""
        try:
            query = {"everybody": "true"} if everybody else None
            accounts = (await visit.api.get("/v1/accounts", AccountList, query)).accounts
        except RestProblem as problem:
            if problem.document.code not in _EXPECTED:
                raise
            why = problem.document.detail
        servers = (await visit.api.get("/v1/servers", ServerList)).servers
        ended = request.query_params.get("ended", "")
        return await visit.page(
            "accounts/list.html",
            part=part_of(accounts, request, PER_PAGE),
            everybody=everybody,
            why=why,
            wanted=[server for server in servers if server.sign_in][:PER_PAGE],
            ended=ended if ended in ("revoked", "forgotten") else "",
        )

    @routes.post(PATH + "/end")
    async def end_account(request: Request) -> Response:
        visit = console.visit(request)
        fields = await visit.form()
        namespace, _, name = fields.get("server", "").partition("/")
        path = f"/v1/accounts/{quote(namespace, safe='')}/{quote(name, safe='')}"
        ended = await visit.api.delete(path, EndedAccountFacts, {"person": fields.get("person", "")})
        return redirect(f"{PATH}?{urlencode({'ended': 'revoked' if ended.revoked else 'forgotten'})}")

    return routes
