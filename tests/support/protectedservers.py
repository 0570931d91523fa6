"""MCP servers that take the tokens of a `TokenEndpoint` alone, and bind their sessions to the tokens' users.

async with token_endpoint() as provider, protected_sdk_server(provider) as server:
    ...                          # the SDK's server, both eras; its tools say who called
    server.requests              # all that it received, byte for byte
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from rawserver import RawServer, Reply, Request, raw_server
from tokenendpoint import TokenEndpoint
from toolservers import INFO, META, serve_asgi, tool

WHOAMI = tool("whoami")
CONFIRM = tool("confirm")


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
    """A running server. `users` has the user of each token that it was sent, by session id."""

    url: str
    requests: list[SeenRequest] = field(default_factory=list)
    users: dict[str, set[str]] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    """Calls by user."""

    def everything(self) -> str:
        """All that was received, as one text to search."""
        return repr([(request.method, request.headers, request.body) for request in self.requests])


@contextlib.asynccontextmanager
async def protected_sdk_server(provider: TokenEndpoint, *scopes: str) -> AsyncIterator[ProtectedServer]:
    """The Python SDK's server behind its own bearer authentication, which demands `scopes`."""
    from mcp.server import MCPServer
    from mcp.server.auth.middleware.auth_context import get_access_token
    from mcp.server.auth.provider import AccessToken
    from mcp.server.auth.settings import AuthSettings
    from mcp.server.mcpserver import Context
    from mcp.server.transport_security import TransportSecuritySettings
    from pydantic import AnyHttpUrl, BaseModel

    class Answer(BaseModel):
        word: str

    class Verifier:
        async def verify_token(self, token: str) -> AccessToken | None:
            try:
                claims = provider.verify(token)
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

    seen = ProtectedServer("")
    auth = AuthSettings(
        issuer_url=AnyHttpUrl(provider.url),
        resource_server_url=AnyHttpUrl("http://127.0.0.1/mcp"),
        validate_token_resource=False,
        required_scopes=[*scopes],
    )
    server = MCPServer("protected", auth=auth, token_verifier=Verifier())

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
        answer = await ctx.elicit("Which word?", Answer)
        return f"{caller()}: {answer.data.word if answer.action == 'accept' else answer.action}"

    app = server.streamable_http_app(
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False)
    )

    async def recording(scope: Any, receive: Any, send: Any) -> None:
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

    async with serve_asgi(recording) as port:
        seen.url = f"http://127.0.0.1:{port}/mcp"
        yield seen


class Protected:
    """A hand-written server of either era that answers every call with the token's user, and refuses on demand."""

    def __init__(self, provider: TokenEndpoint) -> None:
        self.provider = provider
        self.refuse_tokens: set[str] = set()
        """Tokens that it answers with 401, though they are valid."""
        self.refuse_all = False
        self.demands: set[str] = set()
        """Scopes without which it answers 403 and names them."""
        self.sessions: dict[str, str] = {}
        """User by session id."""
        self.crossed: list[tuple[str, str]] = []
        """Session owner and user of each request with another user's session id."""
        self.executed: Counter[str] = Counter()
        """Calls that were executed, by user."""
        self.hold: asyncio.Event | None = None
        self.messages: list[tuple[str, str, str]] = []
        """Verb, method and user of each request."""

    async def handle(self, request: Request, reply: Reply) -> None:
        user = self._user(request, reply)
        if user is None:
            return
        self.messages.append((request.verb, request.method, user))
        session = request.headers.get("mcp-session-id", "")
        if session and self.sessions.get(session) != user:
            self.crossed.append((self.sessions.get(session, ""), user))
            reply.send(404)
        elif request.verb == "DELETE":
            self.sessions.pop(session, None)
            reply.send(200)
        elif request.verb == "GET":
            reply.open_stream()
            await asyncio.Event().wait()
        elif request.method == "initialize":
            ident = f"s{len(self.sessions)}-{user}"
            self.sessions[ident] = user
            capabilities = {"tools": {}, "resources": {"subscribe": True}}
            result = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": INFO}
            reply.result(request, result, mcp_session_id=ident)
        elif "id" not in request.message:
            reply.send(202)
        elif request.method == "subscriptions/listen":
            await self._listen(request, reply, user)
        else:
            await self._call(request, reply, user)

    async def _listen(self, request: Request, reply: Reply, user: str) -> None:
        uris = request.params["notifications"].get("resourceSubscriptions", [])
        reply.open_stream()
        for uri in uris:
            params = {"uri": uri, "_meta": {"for": user}}
            reply.event({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params})
        await asyncio.Event().wait()

    async def _call(self, request: Request, reply: Reply, user: str) -> None:
        if request.method == "tools/call":
            self.executed[user] += 1
            if self.hold is not None:
                await self.hold.wait()
        modern = META + "protocolVersion" in request.params.get("_meta", {})
        more = {"resultType": "complete"} if modern else {}
        reply.result(request, {"content": [{"type": "text", "text": user}], **more})

    def _user(self, request: Request, reply: Reply) -> str | None:
        """User of a token that it takes; None after a refusal."""
        token = request.headers.get("authorization", "").partition(" ")[2]
        try:
            claims = self.provider.verify(token)
        except ValueError:
            claims = {}
        if not claims or token in self.refuse_tokens or self.refuse_all:
            reply.send(401, json.dumps({"token": token}).encode(), www_authenticate='Bearer error="invalid_token"')
            return None
        missing = self.demands - set(claims.get("scope", "").split())
        if missing:
            scope = " ".join(sorted(self.demands))
            reply.send(403, www_authenticate=f'Bearer error="insufficient_scope", scope="{scope}"')
            return None
        return str(claims["sub"])


@contextlib.asynccontextmanager
async def protected_server(provider: TokenEndpoint) -> AsyncIterator[tuple[Protected, RawServer]]:
    """A `Protected` server and its socket."""
    protected = Protected(provider)
    async with raw_server(protected.handle) as server:
        yield protected, server
