"""Services that all pages of the console share: identity, REST API, forms and responses."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

import msgspec
from fastapi import Request, Response
from starlette.types import ASGIApp

from fairlead_api.client_files.known_clients import BRIDGE
from fairlead_console.first_views import FirstViews
from fairlead_console.html import Templates, page_answer
from fairlead_console.rest_client import RestClient
from fairlead_console.session_cookie import ConsoleSession
from fairlead_console.static_files import StaticFiles
from fairlead_console.visible_calls import VisibleCallReader, VisibleCalls
from fairlead_gateway.core.identity import IDENTITY, Identity
from fairlead_offers.problems import BODY_TOO_LARGE, FORBIDDEN, INVALID_ARGUMENTS, Problem
from fairlead_rest.context import RestContext
from fairlead_tools.version import VERSION

Result = TypeVar("Result")
SESSION: Final = "fairlead.console.session"
"""Key of the session in an ASGI scope."""
_THEME: Final = "fairlead_theme"
CSRF_FIELD: Final = "csrf"
MAX_FORM: Final = 1 << 20
"""Maximum size of a form in bytes."""
MAX_FIELDS: Final = 1000


class NavigationEntry(msgspec.Struct, frozen=True):
    """Entry of a page in the navigation."""

    title: str
    path: str
    position: int
    """Sort key."""


class ConsoleContext:
    """Services that all pages share. Each gateway has one instance."""

    def __init__(
        self,
        rest: RestContext,
        api: ASGIApp,
        navigation: Sequence[NavigationEntry],
        trace_url: str = "",
        program: Sequence[str] = (BRIDGE,),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`api` is the REST API behind its guard."""
        self.program = program
        """Command line of `fairlead` on the visitor's machine, for clients that start programs."""
        self.trace_url = trace_url
        """URL of a trace with a placeholder for the trace id; empty if no trace viewer is configured."""
        self.rest = rest
        self.api = api
        self.static = StaticFiles()
        self.templates = Templates(self.static)
        self._navigation = tuple(navigation)
        self.call_statistics = VisibleCallReader(rest.records.calls, clock)
        """Reads scores and call statistics; use it only in the worker thread."""
        self.first_views = FirstViews(rest.services.work.worker, self.templates)
        """Prepares pages before their first view."""
        self.first_views.add(self.call_statistics.scores.of)
        self.first_views.add(lambda catalog: rest.services.catalogs.visible_tools(catalog, None))

    def visit(self, request: Request) -> Visit:
        """Make the Visit of a request."""
        return Visit(self, request)

    async def answer(
        self,
        request: Request,
        template: str,
        values: Mapping[str, Any],
        *,
        status: int = 200,
        identity: Identity | None = None,
    ) -> Response:
        """Render a template and make the response."""
        shared_values = self.template_values(request)
        accepts_gzip = "gzip" in request.headers.get("accept-encoding", "")
        return await self.rest.services.work.do(
            lambda: page_answer(
                self.templates.render(template, {**shared_values, "identity": identity, **values}),
                status,
                accepts_gzip=accepts_gzip,
            )
        )

    def template_values(self, request: Request) -> dict[str, Any]:
        """Return the values that all templates use."""
        session: ConsoleSession | None = request.scope.get(SESSION)
        theme = request.cookies.get(_THEME, "")
        return {
            "theme": theme if theme in ("dark", "light") else "",
            # only for a navigation: a page that a script refreshes has the style sheet already
            "inline_css": request.headers.get("sec-fetch-dest") == "document",
            "navigation": self._navigation,
            "here": request.url.path,
            "mcp_url": f"{str(request.base_url).rstrip('/')}/mcp",
            "identity": None,
            "version": VERSION,
            "csrf": "" if session is None else session.csrf,
            "signed_in": session is not None and bool(session.credential),
            "can_sign_in": not self.rest.guard.identities.open,
        }


class Visit:
    """One authenticated request for a page, with a client of the REST API that has the visitor's identity."""

    def __init__(self, console: ConsoleContext, request: Request) -> None:
        self._console = console
        self._request = request
        self.identity: Identity = request.scope[IDENTITY]
        self.api = RestClient(console.api, request.scope, console.rest.services.work.do)
        """REST API with the visitor's identity."""

    @property
    def administers(self) -> bool:
        """Whether the visitor is in a group of administrators, or the gateway does not authenticate clients."""
        return self._console.rest.administers(self.identity)

    async def with_call_statistics(self, compute: Callable[[VisibleCalls], Result]) -> Result:
        """Call `compute` in the worker with the statistics of the calls that the visitor may see; return its result."""
        catalog = self._console.rest.catalog(self._request)
        return await self._console.rest.services.work.do(lambda: compute(self._console.call_statistics.read(catalog)))

    async def page(self, template: str, status: int = 200, **values: Any) -> Response:
        """Make the response from `template`, which is `FOLDER/NAME.html` in `pages`."""
        shared_values = {"administers": self.administers, **values}
        answer = await self._console.answer(
            self._request, template, shared_values, status=status, identity=self.identity
        )
        if self._request.headers.get("sec-fetch-dest") != "empty":  # not for the refresh of an open page
            self._console.first_views.prepare(self._console.rest.catalog(self._request))
        return answer

    async def form(self) -> dict[str, str]:
        """Read the fields of a posted form and check its CSRF token. Raises Problem."""
        return await read_own_form(self._request, self._request.scope.get(SESSION))


async def read_own_form(request: Request, session: ConsoleSession | None) -> dict[str, str]:
    """Read the fields of a posted form and check that it has the CSRF token of the session. Raises Problem."""
    fields = await read_form(request)
    if session is None or not hmac.compare_digest(fields.get(CSRF_FIELD, "").encode(), session.csrf.encode()):
        raise Problem(FORBIDDEN, "the form is not from this session, or the session has ended: load the page again")
    return fields


async def read_form(request: Request) -> dict[str, str]:
    """Read the fields of a form (application/x-www-form-urlencoded). Raises Problem."""
    pieces, size = [], 0
    async for piece in request.stream():
        size += len(piece)
        if size > MAX_FORM:
            raise Problem(BODY_TOO_LARGE, f"the form is larger than {MAX_FORM} bytes")
        pieces.append(piece)
    try:
        text = b"".join(pieces).decode("utf-8")
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError as error:
        raise Problem(INVALID_ARGUMENTS, "the form is not valid application/x-www-form-urlencoded") from error
