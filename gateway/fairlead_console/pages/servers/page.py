"""The pages `/console/servers` and `/console/servers/{server}`."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request, Response

from fairlead_api.documents.servers import READY
from fairlead_api.meta import LABEL_NAME
from fairlead_console.context import ConsoleContext, NavigationEntry, Visit
from fairlead_console.html import redirect
from fairlead_console.pages.servers.rows import server_row, server_rows
from fairlead_console.paging import ListPart, part_of
from fairlead_console.rest_client import RestProblem
from fairlead_console.visible_calls import CallSums, VisibleCalls
from fairlead_rest.problems import UNKNOWN_SERVER
from fairlead_rest.resources.logs import LogDocument
from fairlead_rest.resources.scores import Score
from fairlead_rest.resources.servers import RefreshAsked, ServerDocument, ServerList

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
        servers = await visit.api.get("/v1/servers", ServerList)
        rows, total, tools = await visit.with_figures(
            lambda now: (server_rows(servers.servers, now), now.of_all(), len(now.index.tools))
        )
        troubled = [row for row in rows if row.state != READY]
        return await visit.page(
            "servers/list.html", part=part_of(rows, request, EACH), troubled=troubled, total=total, tools=tools,
            servers=len(rows),
        )  # fmt: skip

    @routes.get(PATH + "/{server:path}")
    async def show_server(request: Request, server: str) -> Response:
        visit = console.visit(request)
        found = await visit.api.get(f"/v1/servers/{server}", ServerDocument)
        log = await _log(visit, found.server)
        row, tools = await visit.with_figures(lambda now: (server_row(found, now), _tools(found, request, now)))
        return await visit.page(
            "servers/one.html", row=row, document=found, part=tools, log=log,
            asked=request.query_params.get("asked") == "1",
        )  # fmt: skip

    @routes.post(PATH + "/{server:path}/refresh")
    async def refresh(request: Request, server: str) -> Response:
        visit = console.visit(request)
        await visit.form()
        asked = await visit.api.post(f"/v1/servers/{server}/refresh", None, RefreshAsked)
        return redirect(f"{PATH}/{asked.server}?asked=1")

    return routes


def _tools(server: ServerDocument, request: Request, now: VisibleCalls) -> ListPart[tuple[Score, CallSums]]:
    part = part_of(now.index.by_server.get(server.server, []), request, EACH)
    return ListPart(
        [(score, now.of_tool(score)) for score in part.items], part.total, part.number, part.parts, part.link
    )


async def _log(visit: Visit, server: str) -> LogDocument | str:
    """The last lines of a server's output; a sentence where there are none for this person."""
    try:
        return await visit.api.get(f"/v1/logs/{server}", LogDocument, {"tail": str(LINES)})
    except RestProblem as problem:
        if problem.document.code == UNKNOWN_SERVER:  # it is known here, but not to the log: it never printed a line
            namespace, _, name = server.partition("/")
            command = f"kubectl logs --namespace {namespace} --selector {LABEL_NAME}={name} --all-containers --prefix"
            return f"No process of it has printed anything here. On a cluster, its pod has it: {command}"
        return problem.document.detail
