"""Authentication of requests for pages: the session in the cookie has the credential, which the gateway's guard checks.

With `fairlead up`, only browsers on this machine have access, and only by the token in the URL that the command prints.
The first response sets the cookie of a session and redirects to a URL without the token, so that the token does not
stay in the address bar and the history.
"""

from __future__ import annotations

import hmac
from collections.abc import MutableMapping
from typing import Any, Final, Protocol
from urllib.parse import parse_qs, urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from fairlead_console.context import SESSION
from fairlead_console.html import redirect
from fairlead_console.paths import ROOT, header
from fairlead_console.session_cookie import ConsoleSession, CookieSealer
from fairlead_console.static_files import PREFIX as STATIC
from fairlead_offers.problems import FORBIDDEN, UNAUTHENTICATED, Problem
from fairlead_web.local_requests import is_local

SIGN_IN: Final = "/console/sign-in"
SIGN_OUT: Final = "/console/sign-out"
_PUBLIC_PATHS: Final = (STATIC, SIGN_IN, SIGN_OUT)
"""Paths that need no credential. Signing out needs none, so that a session with an expired credential can be ended."""


class ConsolePages(Protocol):
    """Application that serves authenticated requests."""

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        ...

    def problem(self, scope: Scope, problem: Problem) -> Response:
        """Make an error page."""
        ...


class Access:
    """Creates and reads the sessions of browsers. Each gateway has one instance."""

    def __init__(self, sealer: CookieSealer, *, token: str, anonymous: bool) -> None:
        """If `token` is not empty, only browsers on this machine that have the token get access. Otherwise, `anonymous`
        says whether all browsers get access.
        """
        self.sealer = sealer
        self._token = token
        self.local_only = bool(token)
        """Whether only browsers on this machine have access."""
        self.needs_session = bool(token) or not anonymous
        """Whether pages are shown only to browsers with a session."""

    def session(self, scope: Scope) -> ConsoleSession | None:
        """Return the valid session of a request's cookie, or None."""
        return self.sealer.session(header(scope, b"cookie"))

    def renewable_session(self, scope: Scope) -> ConsoleSession | None:
        """Return the session of a request's cookie if its credential has expired but the session may be renewed, else
        None.
        """
        return self.sealer.renewable_session(header(scope, b"cookie"))

    def cookie(self, scope: Scope, session: ConsoleSession) -> str:
        """Make the `Set-Cookie` of a session. Raises ValueTooLong."""
        return self.sealer.header(session, secure=is_secure(scope))

    def exchange(self, scope: Scope) -> Response | None:
        """Exchange the token in a request's query for a session. Returns a redirect that sets the session's cookie and
        leads to a URL without the token; None for a request without the valid token.
        """
        token = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if not (self._token and hmac.compare_digest(token.encode(), self._token.encode())):
            return None
        return redirect(ROOT, self.cookie(scope, self.sealer.begin()))


class ConsoleRequest:
    """Request of a browser for the console. As a `ForeignApi`, it gives the session's credential to the guard, and
    answers errors with pages instead of problem documents.
    """

    own_pages = True
    """POST requests come from pages of the gateway itself, so the guard allows the gateway's own origin."""
    any_origin = False

    def __init__(self, access: Access, pages: ConsolePages, scope: Scope) -> None:
        path = scope["path"]
        self._access = access
        self._pages = pages
        self._scope = scope
        self._is_redirected = not path.startswith(ROOT)
        """Whether the path is `/` or `/console`, which are redirected to the console."""
        self.public = self._is_redirected or path.startswith(_PUBLIC_PATHS)
        """Whether the path needs no credential."""
        self._session = None if path.startswith(STATIC) else access.session(scope)
        self._new_session: ConsoleSession | None = None
        """Session that this request starts, to protect forms against CSRF at a gateway without authentication."""
        scope[SESSION] = self._session

    def credential(self, scope: Scope) -> bytes | None:
        """Return the session's credential as a value of `Authorization`. Raises Problem without a session."""
        if self._access.local_only and not is_local(Request(scope)):
            raise Problem(FORBIDDEN, "this console can be opened only in a browser on the gateway's machine")
        if self._session is None:
            if self._access.needs_session:
                raise Problem(UNAUTHENTICATED, "sign in to see the console")
            scope[SESSION] = self._session = self._new_session = self._access.sealer.begin()
        return f"Bearer {self._session.credential}".encode() if self._session.credential else None

    def refusal(self, problem: Problem) -> Response:
        """Redirect to the sign-in, or make an error page."""
        if problem.document.code == UNAUTHENTICATED:
            session_redirect = self._access.exchange(self._scope)
            if session_redirect is not None or self._scope["method"] == "GET":
                path = self._scope["path"]
                return session_redirect or redirect(SIGN_IN + ("" if path == ROOT else f"?{urlencode({'next': path})}"))
        return self._pages.problem(self._scope, problem)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = scope["query_string"].decode("latin-1")
        if self._is_redirected:
            await redirect(ROOT + (f"?{query}" if query else ""))(scope, receive, send)
        elif not self.public and (session_redirect := self._access.exchange(scope)) is not None:
            await session_redirect(scope, receive, send)
        else:
            await self._pages.serve(scope, receive, send if self._new_session is None else self._with_session(send))

    def _with_session(self, send: Send) -> Send:
        """Wrap `send` so that the response sets the cookie of the new session."""
        assert self._new_session is not None
        cookie = (b"set-cookie", self._access.cookie(self._scope, self._new_session).encode())

        async def with_cookie(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], cookie]}
            await send(message)

        return with_cookie


def is_secure(scope: Scope) -> bool:
    """Whether the browser uses https, to this gateway or to a proxy in front of it."""
    return scope["scheme"] == "https" or header(scope, b"x-forwarded-proto") == "https"
