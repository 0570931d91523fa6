"""The pages `/console/servers` and `/console/servers/{server}`."""

from __future__ import annotations

import asyncio
from typing import Final

from fastapi import APIRouter, Request, Response

from fairlead_api.documents.servers import READY
from fairlead_console.context import ConsoleContext, NavigationEntry, Visit
from fairlead_console.html import redirect
from fairlead_console.pages.servers.rows import call_sums, server_row, server_rows
from fairlead_console.paging import part_of
from fairlead_console.rest_client import RestProblem
from fairlead_rest.resources.logs import LogDocument
from fairlead_rest.resources.scores import Scores
from fairlead_rest.resources.servers import RefreshAsked, ServerDocument, ServerList
from fairlead_tools.call_rates import CallRate

PATH: Final = "/console/servers"
ENTRY: Final = NavigationEntry("Servers", PATH, 10)
EACH: Final = 50
"""Servers of one part of the list."""
LINES: Final = 60
"""Lines of a server's output."""


def router(console: ConsoleContext) -> APIRouter:
    """The routes of the page."""
    routes = APIRouter()

    @routes.get(PATH)
    async def list_servers(request: Request) -> Response:
        visit = console.visit(request)
        servers, scores = await asyncio.gather(visit.api.get("/v1/servers", ServerList), _scores(visit))
        rates = console.rates(scores.origin, scores.tools)
        rows = await console.rest.worker.do(lambda: server_rows(servers.servers, scores.tools, rates))
        troubled = [row for row in rows if row.state != READY]
        return await visit.page(
            "servers/list.html", part=part_of(rows, request, EACH), troubled=troubled,
            total=call_sums(scores.tools, rates), tools=len(scores.tools), servers=len(rows),
        )  # fmt: skip

    @routes.get(PATH + "/{server:path}")
    async def show_server(request: Request, server: str) -> Response:
        visit = console.visit(request)
        found = await visit.api.get(f"/v1/servers/{server}", ServerDocument)
        scores, log = await asyncio.gather(_scores(visit), _log(visit, found.server))
        rates = console.rates(scores.origin, scores.tools)
        own = [score for score in scores.tools if score.server == found.server]
        none = CallRate(0, 0)
        tools = part_of([(score, rates.get(score.name, none)) for score in own], request, EACH)
        return await visit.page(
            "servers/one.html", row=server_row(found, own, rates), document=found, part=tools, log=log,
            asked=request.query_params.get("asked") == "1",
        )  # fmt: skip

    @routes.post(PATH + "/{server:path}/refresh")
    async def refresh(request: Request, server: str) -> Response:
        visit = console.visit(request)
        await visit.form()
        asked = await visit.api.post(f"/v1/servers/{server}/refresh", None, RefreshAsked)
        return redirect(f"{PATH}/{asked.server}?asked=1")

    return routes


async def _scores(visit: Visit) -> Scores:
    return await visit.api.get("/v1/scores", Scores)


async def _log(visit: Visit, server: str) -> LogDocument | str:
    """The last lines of a server's output; a sentence where there are none for this person."""
    try:
        return await visit.api.get(f"/v1/logs/{server}", LogDocument, {"tail": str(LINES)})
    except RestProblem as problem:
        return problem.document.detail
