"""An MCP server that accepts only the tokens of a `TokenEndpoint`, and binds its sessions to the tokens' users.

async with token_endpoint() as provider, protected_server(provider) as (protected, server):
    ...                          # a hand-written server of either era, which answers with the token's user
    assert protected.crossed == []
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator

from rawserver import RawServer, Reply, Request, raw_server
from tokenendpoint import TokenEndpoint
from toolservers import INFO, META, tool

WHOAMI = tool("whoami")
CONFIRM = tool("confirm")


class Protected:
    """A hand-written server of either era that answers every call with the token's user, and rejects tokens on
    demand.
    """

    def __init__(self, provider: TokenEndpoint) -> None:
        self.provider = provider
        self.refuse_tokens: set[str] = set()
        """Valid tokens that it answers with 401."""
        self.refuse_all = False
        self.demands: set[str] = set()
        """Scopes that it requires; without them it answers 403 and names them."""
        self.sessions: dict[str, str] = {}
        """User by session id."""
        self.crossed: list[tuple[str, str]] = []
        """Owner of the session and user of each request that used another user's session id."""
        self.executed: Counter[str] = Counter()
        """Number of executed calls by user."""
        self.hold: asyncio.Event | None = None
        self.listening: dict[str, list[Reply]] = {}
        """Open event streams by user."""
        self.messages: list[tuple[str, str, str]] = []
        """HTTP method, MCP method and user of each request."""

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
        elif request.verb == "GET" or request.method == "subscriptions/listen":
            await self._listen(request, reply, user)
        elif request.method == "initialize":
            ident = f"s{len(self.messages)}-{user}"
            self.sessions[ident] = user
            capabilities = {"tools": {}, "resources": {"subscribe": True}}
            result = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": INFO}
            reply.result(request, result, mcp_session_id=ident)
        elif "id" not in request.message:
            reply.send(202)
        else:
            await self._call(request, reply, user)

    async def _listen(self, request: Request, reply: Reply, user: str) -> None:
        self.listening.setdefault(user, []).append(reply)
        reply.open_stream()
        await reply.flush()
        await asyncio.Event().wait()

    async def change(self, user: str, uri: str) -> None:
        """Send a notification about a changed resource to one user's streams."""
        for stream in self.listening[user]:
            params = {"uri": uri}
            stream.event({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params})
            await stream.flush()

    async def _call(self, request: Request, reply: Reply, user: str) -> None:
        if request.method == "tools/call":
            self.executed[user] += 1
            if self.hold is not None:
                await self.hold.wait()
        modern = META + "protocolVersion" in request.params.get("_meta", {})
        more = {"resultType": "complete"} if modern else {}
        reply.result(request, {"content": [{"type": "text", "text": user}], **more})

    def _user(self, request: Request, reply: Reply) -> str | None:
        """User of a valid token; None after a refusal."""
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
