"""Page `/console/accounts`: who granted access to which server, and for what time, with a button that ends each
account; also the clients that users have signed in. Administrators see the accounts and clients of all users.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request, Response

from fairlead_console.context import ConsoleContext, NavigationEntry, Visit
from fairlead_console.html import redirect
from fairlead_console.paging import part_of
from fairlead_console.rest_client import RestProblem
from fairlead_offers.problems import FORBIDDEN, NOT_KEPT
from fairlead_rest.account_facts import AccountFacts, EndedAccountFacts
from fairlead_rest.resources.accounts import AccountList
from fairlead_rest.resources.client_sign_ins import ClientSignInFacts, ClientSignInList, EndedSignIns
from fairlead_rest.resources.servers import ServerList

PATH: Final = "/console/accounts"
ENTRY: Final = NavigationEntry("Accounts", PATH, 75)
PER_PAGE: Final = 50
"""Accounts per page of the list."""
_EXPECTED: Final = (NOT_KEPT, FORBIDDEN)
"""Error codes that the page explains: the gateway has no store, or the visitor can have no accounts."""


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
            accounts = (await visit.api.get("/v1/accounts", AccountList, _query(everybody))).accounts
        except RestProblem as problem:
            if problem.document.code not in _EXPECTED:
                raise
            why = problem.document.detail
        sign_ins = await list_sign_ins(visit, everybody=everybody)
        servers = (await visit.api.get("/v1/servers", ServerList)).servers
        outcome = request.query_params.get("ended", "")
        return await visit.page(
            "accounts/list.html",
            part=part_of(accounts, request, PER_PAGE),
            everybody=everybody,
            why=why,
            wanted=[server for server in servers if server.sign_in][:PER_PAGE],
            ended=outcome if outcome in ("revoked", "forgotten", "client", "clients") else "",
            clients=part_of(sign_ins, request, PER_PAGE, "clients"),
            persons={each.person: each.holder for each in sign_ins},
        )

    async def list_sign_ins(visit: Visit, *, everybody: bool) -> list[ClientSignInFacts]:
        try:
            return (await visit.api.get("/v1/sign-ins", ClientSignInList, _query(everybody))).sign_ins
        except RestProblem as problem:
            if problem.document.code not in _EXPECTED:
                raise
            return []

    @routes.post(PATH + "/end")
    async def end_account(request: Request) -> Response:
        visit = console.visit(request)
        fields = await visit.form()
        namespace, _, name = fields.get("server", "").partition("/")
        path = f"/v1/accounts/{quote(namespace, safe='')}/{quote(name, safe='')}"
        ended_account = await visit.api.delete(path, EndedAccountFacts, {"person": fields.get("person", "")})
        return redirect(f"{PATH}?{urlencode({'ended': 'revoked' if ended_account.revoked else 'forgotten'})}")

    @routes.post(PATH + "/end-client")
    async def end_client(request: Request) -> Response:
        visit = console.visit(request)
        fields = await visit.form()
        path = f"/v1/sign-ins/{quote(fields.get('id', ''), safe='')}"
        await visit.api.delete(path, ClientSignInFacts, {"person": fields.get("person", "")})
        return redirect(f"{PATH}?ended=client")

    @routes.post(PATH + "/end-clients")
    async def end_clients(request: Request) -> Response:
        visit = console.visit(request)
        fields = await visit.form()
        query = {"person": fields.get("person", ""), "accounts": "true" if fields.get("accounts") else "false"}
        await visit.api.delete("/v1/sign-ins", EndedSignIns, query)
        return redirect(f"{PATH}?ended=clients")

    return routes


def _query(everybody: bool) -> dict[str, str] | None:
    return {"everybody": "true"} if everybody else None
