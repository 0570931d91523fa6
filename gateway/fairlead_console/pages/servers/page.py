"""Pages about servers: `/console/servers` lists all servers, `/console/servers/{server}` shows one server with its
tools and output, and `/console/servers/{server}/held` shows its definitions that are held back.
"""

from __future__ import annotations

import asyncio
from typing import Final

from fastapi import APIRouter, Request, Response

from fairlead_api.documents.servers import READY, STOPPED
from fairlead_api.meta import pod_logs
from fairlead_console.context import ConsoleContext, NavigationEntry, Visit
from fairlead_console.html import redirect
from fairlead_console.pages.servers.changes import change_rows
from fairlead_console.pages.servers.rows import server_row, server_rows
from fairlead_console.paging import ListPart, part_of
from fairlead_console.rest_client import RestProblem
from fairlead_console.visible_calls import CallSums, VisibleCalls
from fairlead_offers.problems import NOT_HELD, UNKNOWN_SERVER
from fairlead_rest.resources.held import ApprovalAsked, ApproveRequest, HeldDocument
from fairlead_rest.resources.logs import LogDocument
from fairlead_rest.resources.scores import Score
from fairlead_rest.resources.servers import RefreshAsked, ServerDocument, ServerList
from fairlead_rest.resources.sign_ins import SignInDocument
from fairlead_web.sign_in_html import onward_page

PATH: Final = "/console/servers"
ENTRY: Final = NavigationEntry("Servers", PATH, 10)
PER_PAGE: Final = 40
"""Servers per page of the list."""
MAX_FILES: Final = 10
"""Maximum number of shown problems of files; the REST API has all problems."""
MAX_REASON: Final = 300
"""Maximum length of a server's reason in the list, in characters; the server's page shows the whole reason."""
LOG_LINES: Final = 60
"""Maximum number of shown lines of a server's output."""
TOOLS_PER_PAGE: Final = 50
"""Tools per page of a server's list."""
MAX_REMARKS: Final = 50
"""Maximum number of shown remarks on operations; the REST API has up to 500."""
HELD_PER_PAGE: Final = 10
"""Definitions that are held back per page of the list."""
MAX_PAGES: Final = 100_000
MAX_CHECKS: Final = 12
CHECK_SECONDS: Final = 0.25
"""Seconds between two checks whether an approval is applied. After MAX_CHECKS checks, the page says that the approval
is pending."""


def router(console: ConsoleContext) -> APIRouter:
    """Make the routes of the pages."""
    routes = APIRouter()

    @routes.get(PATH)
    async def list_servers(request: Request) -> Response:
        visit = console.visit(request)
        servers = await visit.api.get("/v1/servers", ServerList)
        rows, total, tools = await visit.with_call_statistics(
            lambda calls: (server_rows(servers.servers, calls), calls.of_all(), len(calls.index.tools))
        )
        part = part_of(rows, request, PER_PAGE)
        return await visit.page(
            "servers/list.html",
            part=part,
            explained=[row for row in part.items if row.needs_explanation],
            others=[row for row in part.items if not row.needs_explanation],
            troubled=sum(row.state not in (READY, STOPPED) for row in rows),
            stopped=sum(row.state == STOPPED for row in rows),
            total=total,
            tools=tools,
            servers=len(rows),
            files=(servers.file_problems or [])[:MAX_FILES],
            more_files=max(0, len(servers.file_problems or []) - MAX_FILES),
            most=MAX_REASON,
        )

    @routes.get(PATH + "/{server:path}/held")
    async def show_held(request: Request, server: str) -> Response:
        return await _held_page(console, request, server)

    @routes.post(PATH + "/{server:path}/approve")
    async def approve(request: Request, server: str) -> Response:
        visit = console.visit(request)
        approval = ApproveRequest((await visit.form()).get("hash", ""))
        try:
            requested_approval = await visit.api.post(f"/v1/servers/{server}/approve", approval, ApprovalAsked)
        except RestProblem as problem:
            if problem.document.code != NOT_HELD:
                raise
            return await _held_page(console, request, server, problem.document.detail)
        outcome = "done" if await _is_approval_applied(visit, requested_approval) else "asked"
        return redirect(f"{PATH}/{requested_approval.server}/held?{outcome}={len(requested_approval.definitions)}")

    @routes.get(PATH + "/{server:path}")
    async def show_server(request: Request, server: str) -> Response:
        visit = console.visit(request)
        answer = await visit.api.get(f"/v1/servers/{server}", ServerDocument)
        log = await _log(visit, answer.server)
        row, tools = await visit.with_call_statistics(
            lambda statistics: (server_row(answer, statistics), _tools(answer, request, statistics))
        )
        return await visit.page(
            "servers/one.html",
            row=row,
            document=answer,
            part=tools,
            log=log,
            most_remarks=MAX_REMARKS,
            asked=request.query_params.get("asked") == "1",
        )

    @routes.post(PATH + "/{server:path}/refresh")
    async def refresh(request: Request, server: str) -> Response:
        visit = console.visit(request)
        await visit.form()
        requested_discovery = await visit.api.post(f"/v1/servers/{server}/refresh", None, RefreshAsked)
        return redirect(f"{PATH}/{requested_discovery.server}?asked=1")

    @routes.post(PATH + "/{server:path}/sign-in")
    async def sign_in(request: Request, server: str) -> Response:
        visit = console.visit(request)
        await visit.form()
        document = await visit.api.post(f"/v1/servers/{server}/sign-in", None, SignInDocument)
        if document.sign_in_url is None:
            return redirect(f"{PATH}/{document.server}")
        # through a page: browsers follow the redirect of a form only within this origin
        return onward_page(
            f"Sign in at {document.server}", "The next page says where you are sent.", document.sign_in_url, "Continue"
        )

    return routes


def _tools(server: ServerDocument, request: Request, calls: VisibleCalls) -> ListPart[tuple[Score, CallSums]]:
    part = part_of(calls.index.by_server.get(server.server, []), request, TOOLS_PER_PAGE)
    return ListPart(
        [(score, calls.of_tool(score)) for score in part.items], part.total, part.number, part.parts, part.link
    )


async def _held_page(console: ConsoleContext, request: Request, server: str, why: str = "") -> Response:
    """Make the page of definitions that are held back; `why` is the reason why an approval was refused."""
    visit = console.visit(request)
    page_number = request.query_params.get("page", "1")
    page = min(max(1, int(page_number)), MAX_PAGES) if page_number.isdecimal() and len(page_number) < 9 else 1
    query = {"offset": str((page - 1) * HELD_PER_PAGE), "limit": str(HELD_PER_PAGE)}
    document = await visit.api.get(f"/v1/servers/{server}/held", HeldDocument, query)
    rows = await console.rest.services.work.do(lambda: change_rows(document.definitions))
    pages = max(1, -(-document.total // HELD_PER_PAGE))
    values = {"document": document, "changes": rows, "number": page, "pages": pages, "link": lambda n: f"?page={n}"}
    values["whole"] = pages == 1 and all(definition.whole for definition in rows)
    notices = {name: request.query_params.get(name, "") for name in ("done", "asked")}
    return await visit.page("servers/held.html", 409 if why else 200, why=why, **values, **notices)


async def _is_approval_applied(visit: Visit, requested_approval: ApprovalAsked) -> bool:
    """Wait for the operator to apply an approval; False if it is still pending after MAX_CHECKS checks."""
    for _ in range(MAX_CHECKS):
        document = await visit.api.get(f"/v1/servers/{requested_approval.server}/held", HeldDocument, {"limit": "1"})
        if document.hash != requested_approval.held and requested_approval.hash in {
            approval.hash for approval in document.approvals
        }:
            return True
        await asyncio.sleep(CHECK_SECONDS)
    return False


async def _log(visit: Visit, server: str) -> LogDocument | str:
    """Return the last lines of a server's output, or a sentence if there is none or the visitor may not read output."""
    try:
        return await visit.api.get(f"/v1/logs/{server}", LogDocument, {"tail": str(LOG_LINES)})
    except RestProblem as problem:
        if problem.document.code == UNKNOWN_SERVER:  # the server exists, but has never printed a line
            namespace, _, name = server.partition("/")
            return (
                "The gateway has no output of this server. On a cluster, read the log of the server's pod: "
                f"{pod_logs(namespace, name)}"
            )
        return problem.document.detail
