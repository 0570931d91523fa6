"""The Python SDK's server that is its own authorization server, at which users consent by a form; and their browser.

async with consent_server("linear") as server:
    ...                                  # 401 with a challenge, dynamic registration, PKCE, rotating refresh tokens
    page = await FormBrowser().sign_in(link)
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from html import unescape
from types import TracebackType
from typing import Any, Self
from urllib.parse import urljoin

import aiohttp
from mcp.server import MCPServer
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from ports import free_port
from toolservers import serve_asgi

TOKEN_SECONDS = 3600


class ConsentProvider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Stores grants in memory. `person` is the user who signs in at its form; `declines` says whether that user
    declines.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.person = "alice"
        self.declines = False
        self.refuses = False
        """Whether the server refuses every access token."""
        self.token_seconds = TOKEN_SECONDS
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.requests: dict[str, tuple[str, AuthorizationParams]] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.refresh_tokens: dict[str, RefreshToken] = {}
        self.access_tokens: dict[str, AccessToken] = {}
        self.redeemed = 0
        """Number of redeemed codes."""
        self.accounts: dict[str, str] = {}
        """User by access token, including ended ones."""
        self.refreshed = 0
        self.hold: asyncio.Event | None = None
        """Event that the answer to a code waits for, after the code was redeemed."""
        self.arrived = asyncio.Event()
        """Set at each code."""

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id is not None
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        assert client.client_id is not None
        request = secrets.token_urlsafe(12)
        self.requests[request] = client.client_id, params
        return f"{self.url}/form?request={request}"

    async def show_form(self, request: Request) -> Response:
        name = request.query_params["request"]
        return HTMLResponse(
            f'<form method="post" action="/form"><input type="hidden" name="request" value="{name}">'
            "<button>Allow</button></form>"
        )

    async def take_form(self, request: Request) -> Response:
        form = await request.form()
        client_id, params = self.requests.pop(str(form["request"]))
        if self.declines:
            back = construct_redirect_uri(str(params.redirect_uri), error="access_denied", state=params.state)
            return RedirectResponse(back, 302)
        code = secrets.token_urlsafe(24)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
            subject=self.person,
        )
        return RedirectResponse(construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state), 302)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        tokens = self._tokens(authorization_code.client_id, authorization_code.scopes, authorization_code.subject)
        self.redeemed += 1
        self.arrived.set()
        if self.hold is not None:
            await self.hold.wait()
        return tokens

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.refresh_tokens.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        self.refreshed += 1
        del self.refresh_tokens[refresh_token.token]
        return self._tokens(refresh_token.client_id, scopes, refresh_token.subject)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return None if self.refuses else self.access_tokens.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.end(str(token.subject))

    def end(self, person: str) -> None:
        """End all grants of a person."""
        for tokens in (self.refresh_tokens, self.access_tokens):
            for value in [value for value, held in tokens.items() if held.subject == person]:
                tokens.pop(value)

    def _tokens(self, client_id: str, scopes: list[str], person: str | None) -> OAuthToken:
        access, refresh = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        self.accounts[access] = str(person)
        expires = int(time.time()) + self.token_seconds
        self.access_tokens[access] = AccessToken(
            token=access, client_id=client_id, scopes=scopes, expires_at=expires, subject=person
        )
        self.refresh_tokens[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=scopes, subject=person)
        return OAuthToken(
            access_token=access, expires_in=self.token_seconds, scope=" ".join(scopes), refresh_token=refresh
        )


@dataclass
class ConsentServer:
    """A running server with its authorization server."""

    url: str
    provider: ConsentProvider
    methods: list[str] = field(default_factory=list)
    """Methods of the received MCP requests, in order."""
    in_sessions: list[tuple[str, str, str]] = field(default_factory=list)
    """HTTP method, session id and account of each request in a legacy session, in order."""

    def accounts_of_sessions(self) -> dict[str, set[str]]:
        """For each session id, the accounts whose tokens were sent with it."""
        accounts: dict[str, set[str]] = {}
        for _, session, account in self.in_sessions:
            accounts.setdefault(session, set()).add(account)
        return accounts

    def record_requests(self, app: Any) -> Any:
        """Wrap the application so that its requests are recorded."""

        async def record_session(scope: Any, receive: Any, send: Any) -> None:
            headers = dict(scope.get("headers", ()))
            session = headers.get(b"mcp-session-id", b"").decode()
            if session:
                token = headers.get(b"authorization", b"").decode().removeprefix("Bearer ")
                account = self.provider.accounts.get(token, "")
                self.in_sessions.append((scope["method"], session, account))
            await app(scope, receive, send)

        return record_session


@contextlib.asynccontextmanager
async def consent_server(name: str, *, host: str = "127.0.0.1") -> AsyncIterator[ConsentServer]:
    """A server with a tool `whoami`, which returns the user who consented, and with a resource, a template, a prompt
    and instructions. `host` is its name for browsers.
    """
    port = free_port()
    base = f"http://{host}:{port}"
    provider = ConsentProvider(base)
    server = MCPServer(
        name,
        instructions="Ask before you write.",
        auth=AuthSettings(
            issuer_url=AnyHttpUrl(base),
            resource_server_url=AnyHttpUrl(f"{base}/mcp"),
            validate_token_resource=False,
            client_registration_options=ClientRegistrationOptions(enabled=True),
            revocation_options=RevocationOptions(enabled=True),
        ),
        auth_server_provider=provider,
    )

    @server.tool(name="whoami", description="The person who consented.")
    async def whoami() -> str:
        token = get_access_token()
        assert token is not None
        return str(token.subject)

    @server.resource(f"notes://{name}/private", name="private")
    async def private() -> str:
        return f"notes of {await whoami()}"

    @server.resource(f"notes://{name}/about/{{topic}}", name="about")
    async def about(topic: str) -> str:
        return f"{topic} of {await whoami()}"

    @server.prompt(name="draft")
    async def draft() -> str:
        return f"Draft as {await whoami()}."

    server.custom_route("/form", methods=["GET"])(provider.show_form)
    server.custom_route("/form", methods=["POST"])(provider.take_form)
    app = server.streamable_http_app(
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False)
    )
    made = ConsentServer(f"{base}/mcp", provider)
    async with serve_asgi(_noting_methods(made.record_requests(app), made.methods), port=port):
        yield made


def _noting_methods(app: Any, methods: list[str]) -> Any:
    """Wrap the ASGI application so that the method of each MCP request is appended to `methods`."""

    async def note_methods(scope: Any, receive: Any, send: Any) -> None:
        async def receive_and_note() -> Any:
            event = await receive()
            body = event.get("body", b"")
            if scope.get("path") == "/mcp" and body.startswith(b"{"):
                methods.append(str(json.loads(body).get("method")))
            return event

        await app(scope, receive_and_note, send)

    return note_methods


@dataclass
class BrowserPage:
    """A page in a browser."""

    url: str
    status: int
    text: str
    headers: dict[str, str]

    @property
    def onward(self) -> str:
        """URL to which the page redirects; empty if it does not."""
        match = re.search(r'http-equiv="refresh" content="0; url=([^"]*)"', self.text)
        return urljoin(self.url, unescape(match[1])) if match else ""

    @property
    def form(self) -> tuple[str, dict[str, str]]:
        """Address and fields of the page's form."""
        action = re.search(r'<form [^>]*method="post" action="([^"]*)"', self.text)
        assert action is not None, self.text
        fields = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', self.text)
        return urljoin(self.url, unescape(action[1])), {name: unescape(value) for name, value in fields}

    @property
    def has_form(self) -> bool:
        return "<form " in self.text


@dataclass
class FormBrowser:
    """A browser with cookies, which follows redirects and pages that redirect, and submits forms."""

    headers: dict[str, str] = field(default_factory=dict)
    jar: aiohttp.CookieJar = field(default_factory=lambda: aiohttp.CookieJar(unsafe=True))
    _session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(cookie_jar=self.jar)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._session is not None
        await self._session.close()

    async def get(self, url: str, *, follow: bool = True, **headers: str) -> BrowserPage:
        """Open an address."""
        return await self._ask("GET", url, follow=follow, headers=headers)

    async def press(self, page: BrowserPage, *, follow: bool = True, **changes: str) -> BrowserPage:
        """Submit the form; `changes` replace its fields."""
        action, fields = page.form
        origin = re.match(r"https?://[^/]+", page.url)
        assert origin is not None
        return await self._ask("POST", action, follow=follow, headers={"origin": origin[0]}, data={**fields, **changes})

    async def post(self, url: str, fields: dict[str, str], **headers: str) -> BrowserPage:
        """Send fields as a form."""
        return await self._ask("POST", url, follow=False, headers=headers, data=fields)

    async def sign_in(self, link: str) -> BrowserPage:
        """Sign in, from the gateway's page to the end. Raises AssertionError with the page at which it failed."""
        page = await self.press_on(link)
        assert page.status == 200, page.text
        assert not page.has_form, page.text
        return page

    async def press_on(self, link: str) -> BrowserPage:
        """Submit all forms, from the gateway's page to the end or a refusal."""
        page = await self.get(link)
        for _ in range(4):
            if page.status != 200 or not page.has_form:
                break
            page = await self.press(page)
        return page

    async def _ask(self, verb: str, url: str, *, follow: bool, headers: dict[str, str], **more: Any) -> BrowserPage:
        assert self._session is not None
        sent = {"accept": "text/html", **self.headers, **headers}
        async with self._session.request(verb, url, headers=sent, allow_redirects=follow, **more) as answer:
            page = BrowserPage(
                str(answer.url),
                answer.status,
                await answer.text(),
                {name.lower(): value for name, value in answer.headers.items()},
            )
        return await self.get(page.onward) if follow and page.onward else page
