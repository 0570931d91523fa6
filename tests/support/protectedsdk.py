"""The Python SDK's server behind its own bearer authentication, with the tokens of a `TokenEndpoint`.

async with token_endpoint() as provider, protected_sdk_server(provider) as server:
    ...                          # both eras; its tools say who called
    server.all_grants()          # all that it received
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from mcp.server import MCPServer
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import AnyHttpUrl, BaseModel

from tokenendpoint import TokenEndpoint
from toolservers import serve_asgi


@dataclass
class SeenRequest:
    """One HTTP request as the server received it."""

    method: str
    headers: list[tuple[str, str]]
    body: bytes = b""

    def value(self, name: str) -> str:
        return next((value for key, value in self.headers if key == name), "")


@dataclass
class ProtectedServer:
    """A running server. `users` contains the users of received tokens, by session id."""

    url: str
    requests: list[SeenRequest] = field(default_factory=list)
    users: dict[str, set[str]] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    """Number of calls by user."""

    def everything(self) -> str:
        """All received data as one text, to search for secrets."""
        return repr([(request.method, request.headers, request.body) for request in self.requests])


class Word(BaseModel):
    """Answer to the question of `confirm`."""

    word: str


class ProviderVerifier:
    """Verifies tokens of one provider, as SDK servers do with keys or introspection."""

    def __init__(self, provider: TokenEndpoint) -> None:
        self._provider = provider

    async def verify_token(self, token: str) -> AccessToken | None:
        try:
            claims = self._provider.verify(token)
        except ValueError:
            return None
        return AccessToken(
            token=token,
            client_id=claims["client_id"],
            scopes=claims.get("scope", "").split(),
            expires_at=claims["exp"],
            subject=claims["sub"],
            claims=dict(claims),
        )


@contextlib.asynccontextmanager
async def protected_sdk_server(provider: TokenEndpoint, *scopes: str) -> AsyncIterator[ProtectedServer]:
    """The Python SDK's server behind its own bearer authentication, which requires `scopes`."""
    seen = ProtectedServer("")
    auth = AuthSettings(
        issuer_url=AnyHttpUrl(provider.url),
        resource_server_url=AnyHttpUrl("http://127.0.0.1/mcp"),
        validate_token_resource=False,
        required_scopes=[*scopes],
    )
    server = MCPServer("protected", auth=auth, token_verifier=ProviderVerifier(provider))

    def caller() -> str:
        token = get_access_token()
        assert token is not None
        return str(token.subject)

    @server.tool(name="whoami", description="The user of the token.")
    async def whoami(pause: float = 0.0) -> str:
        seen.calls[caller()] += 1
        await asyncio.sleep(pause)
        return caller()

    @server.tool(name="confirm", description="Ask the client for a word.")
    async def confirm(ctx: Context) -> str:
        seen.calls[caller()] += 1
        answer = await ctx.elicit("Which word?", Word)
        return f"{caller()}: {answer.data.word if answer.action == 'accept' else answer.action}"

    app = server.streamable_http_app(
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False)
    )

    async def record_request(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        headers = [(name.decode(), value.decode("latin-1")) for name, value in scope["headers"]]
        request = SeenRequest(scope["method"], headers)
        seen.requests.append(request)
        session, authorization = request.value("mcp-session-id"), request.value("authorization")
        if session and authorization:
            with contextlib.suppress(ValueError):
                user = provider.verify(authorization.partition(" ")[2])["sub"]
                seen.users.setdefault(session, set()).add(user)

        async def receive_and_record() -> Any:
            message = await receive()
            request.body += message.get("body", b"")
            return message

        await app(scope, receive_and_record, send)

    async with serve_asgi(record_request) as port:
        seen.url = f"http://127.0.0.1:{port}/mcp"
        yield seen
