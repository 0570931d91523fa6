"""Console as an ASGI application: collects the pages, authenticates browsers, and answers errors with pages."""

from __future__ import annotations

import pkgutil
import time
from collections.abc import Collection, Mapping, MutableMapping
from importlib import import_module
from typing import Any, Final

from fastapi import APIRouter, FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from fairlead_api.client_files.known_clients import BRIDGE
from fairlead_api.client_files.own_program import own_program
from fairlead_console import consent, pages
from fairlead_console import sign_in as sign_in_routes
from fairlead_console.admission import SIGN_IN, Access, ConsoleRequest
from fairlead_console.context import ConsoleContext
from fairlead_console.html import SECURITY_HEADERS, page_answer, redirect
from fairlead_console.paths import ROOT, is_for_console
from fairlead_console.rest_client import RestProblem, scope_of
from fairlead_console.session_cookie import CookieSealer
from fairlead_console.sign_in_form import SignInForm
from fairlead_console.static_files import PREFIX as STATIC
from fairlead_gateway.core.identity import IDENTITY
from fairlead_gateway.core.page_counts import PageCounts
from fairlead_gateway.identity.console_client import ConsoleSignIn
from fairlead_offers.problems import METHOD_NOT_ALLOWED, NOT_FOUND, Problem
from fairlead_rest.context import RestContext
from fairlead_rest.event_stream import MEDIA_TYPE

STREAMS: Final[Mapping[str, str]] = {"/console/events": "/v1/events", "/console/calls/events": "/v1/calls/events"}
"""Event streams of the REST API, by the path at which the console serves them with the session's cookie."""
OTHER: Final = "other"
"""Label of metrics for requests of unknown pages."""
_FOREVER: Final = "public, max-age=31536000, immutable"


class Console:
    """ASGI application with all pages. It also authenticates requests for pages. Each gateway has one instance."""

    def __init__(
        self,
        rest: RestContext,
        api: ASGIApp,
        *,
        key: bytes = b"",
        token: str = "",
        counts: PageCounts,
        sign_in: ConsoleSignIn | None = None,
        trace_url: str = "",
    ) -> None:
        """`api` is the REST API behind its guard. `key` encrypts sessions; replicas with the same key share them.

        With `token`, only browsers on this machine have access, and a session starts at a URL with the token. A gateway
        that refuses anonymous callers ignores the token, which does not replace a credential. Otherwise, `sign_in`
        configures the sign-in by an OpenID provider. `trace_url` is the URL of a trace with a placeholder for the
        trace's id. `counts` counts page views.
        """
        self._counts = counts
        program = own_program() if token else (BRIDGE,)
        if not rest.guard.identities.answers_anybody:
            token = ""
        self._access = Access(CookieSealer(key), token=token, anonymous=rest.guard.identities.open)
        modules = [
            import_module(f"{pages.__name__}.{module_info.name}.page")
            for module_info in pkgutil.iter_modules(pages.__path__)
        ]
        entries = sorted((module.ENTRY for module in modules), key=lambda entry: entry.position)
        self._context = ConsoleContext(rest, api, entries, trace_url, program)
        self._pages = frozenset(page_of(path) for path in (*(entry.path for entry in entries), SIGN_IN))
        app = FastAPI(title="Fairlead console", openapi_url=None, docs_url=None, redoc_url=None)
        for module in modules:
            app.router.routes.extend(module.router(self._context).routes)
        app.router.routes.extend(self._sign_in(None if token else sign_in).routes)
        app.router.routes.extend(consent.router(rest.sign_ins, rest.guard).routes)
        _add_shared_routes(app, self._context, entries[0].path)
        self._app = app

    def _sign_in(self, sign_in: ConsoleSignIn | None) -> APIRouter:
        form = SignInForm(self._context, self._access, "" if sign_in is None else sign_in.client.provider)
        if sign_in is None:
            return sign_in_routes.router(self._access, form, None)
        from fairlead_console.oidc_sign_in import OidcSignIn  # imported here, as it imports an HTTP client

        return sign_in_routes.router(self._access, form, OidcSignIn(self._context, self._access, form, sign_in))

    def request(self, scope: Scope) -> ConsoleRequest | None:
        """Make a ConsoleRequest; None if the request is not for the console."""
        return ConsoleRequest(self._access, self, scope) if is_for_console(scope) else None

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that the guard has admitted."""
        stream = STREAMS.get(scope["path"])
        if stream is not None:
            query = scope["query_string"].decode("latin-1")
            await self._context.api(scope_of(scope, "GET", stream, query, accept=MEDIA_TYPE), receive, send)
        elif scope["path"].startswith(STATIC):
            await self._app(scope, receive, send)
        else:
            await self._serve_page(scope, receive, send)

    async def _serve_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a page and count the view."""
        began, status = time.perf_counter_ns(), 0

        async def record_status(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        page = page_label(scope["path"], self._pages)
        try:
            await self._app(scope, receive, record_status)
        finally:
            if status:  # 0 if the browser disconnected before the response
                self._counts.count_view(page, status, time.perf_counter_ns() - began)

    def problem(self, scope: Scope, problem: Problem) -> Response:
        """Make an error page."""
        values = {**self._context.template_values(Request(scope)), "title": problem.document.title, "why": str(problem)}
        body = self._context.templates.render("problem.html", values)
        return page_answer(body, problem.document.status, accepts_gzip=False, headers=problem.headers)


def page_of(path: str) -> str:
    """Return the label of a page in metrics: `servers` of `/console/servers/default/shop`; empty for `/console/`."""
    return path.removeprefix(ROOT).partition("/")[0]


def page_label(path: str, pages: Collection[str]) -> str:
    """Return the label of a page, or OTHER if it is unknown, so that requests cannot create time series."""
    name = page_of(path)
    return name if name in pages else OTHER


def _add_shared_routes(app: FastAPI, console: ConsoleContext, first_path: str) -> None:
    @app.get(ROOT)
    async def root(request: Request) -> Response:
        return redirect(first_path)

    @app.get(STATIC + "{name}")
    async def static_file(request: Request, name: str) -> Response:
        file = console.static.by_url.get(STATIC + name)
        if file is None:
            raise HTTPException(404)
        accepts_gzip = "gzip" in request.headers.get("accept-encoding", "")
        fields = {**SECURITY_HEADERS, "cache-control": _FOREVER, "vary": "Accept-Encoding"}
        if accepts_gzip:
            fields["content-encoding"] = "gzip"
        return Response(file.compressed if accepts_gzip else file.body, 200, fields, file.media_type)

    async def problem_page(request: Request, title: str, why: str, status: int) -> Response:
        identity = request.scope.get(IDENTITY)
        return await console.answer(
            request, "problem.html", {"title": title, "why": why}, status=status, identity=identity
        )

    @app.exception_handler(RestProblem)
    async def show_rest_problem(request: Request, error: RestProblem) -> Response:
        return await problem_page(request, error.document.title, error.document.detail, error.document.status)

    @app.exception_handler(Problem)
    async def show_problem(request: Request, error: Problem) -> Response:
        return await problem_page(request, error.document.title, str(error), error.document.status)

    @app.exception_handler(Exception)
    async def show_failure(request: Request, error: Exception) -> Response:
        return await problem_page(request, "The gateway failed", "The gateway's log says why.", 500)

    @app.exception_handler(HTTPException)
    async def show_http_error(request: Request, error: HTTPException) -> Response:
        code = METHOD_NOT_ALLOWED if error.status_code == 405 else NOT_FOUND
        problem = Problem(code, f"the console has no page at {request.url.path[:256]}")
        return await problem_page(request, problem.document.title, str(problem), error.status_code)
