"""MCP servers of the official SDKs that accept only the tokens of one authorization server, and return the caller.

    async with python_server(provider.issuer, provider.jwks_url) as server:
        ... server.url, server.seen ...

Both publish RFC 9728 metadata and answer requests without a token with a challenge. The Python SDK binds each session
to the user who opened it. Their tool is `whoami`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from mcp.server import MCPServer
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import AnyHttpUrl

from builtprograms import build_node, build_program
from fairlead_mcp.addresses import authority
from neededprograms import require_program
from ports import free_port
from toolservers import serve_asgi

_SOURCES: Final = Path(__file__).parent / "protected_servers"
SCOPE: Final = "tools:call"
"""Scope that both servers require by default."""


@dataclass(frozen=True)
class SeenRequest:
    """A request as the server received it."""

    verb: str
    path: str
    headers: dict[str, str]

    @property
    def authorization(self) -> str:
        """Value of the header; empty if it is missing."""
        return self.headers.get("authorization", "")

    @property
    def session(self) -> str:
        """`Mcp-Session-Id`; empty if it is missing."""
        return self.headers.get("mcp-session-id", "")


@dataclass
class ProtectedServer:
    """A running server."""

    url: str
    seen: list[SeenRequest] = field(default_factory=list)
    """All requests; recorded by the Python server only."""

    def requests(self) -> list[SeenRequest]:
        """Requests to the MCP endpoint."""
        return [request for request in self.seen if not request.path.startswith("/.well-known/")]


class JwksVerifier:
    """Verifies JWTs with the keys of their issuer. Implements the SDK's `TokenVerifier`."""

    def __init__(self, issuer: str, jwks_url: str, audience: str) -> None:
        self.issuer = issuer
        self.jwks_url = jwks_url
        self.audience = audience
        self.leeway = 0
        """Allowed difference between clocks, in seconds."""
        self.keys: KeySet | None = None
        self.refused: set[str] = set()
        """Tokens that this server rejects although they are valid."""

    async def verify_token(self, token: str) -> AccessToken | None:
        """Claims of the token; None if it is not valid here."""
        if self.keys is None:
            async with aiohttp.ClientSession() as session, session.get(self.jwks_url) as answer:
                self.keys = KeySet.import_key_set(await answer.json())
        try:
            claims = jwt.decode(token, self.keys, algorithms=["RS256", "ES256"]).claims
            jwt.JWTClaimsRegistry(
                leeway=self.leeway, iss={"essential": True, "value": self.issuer}, exp={"essential": True}
            ).validate(claims)
        except (JoseError, ValueError):
            return None
        audience = claims.get("aud", [])
        if token in self.refused or self.audience not in ([audience] if isinstance(audience, str) else audience):
            return None
        return AccessToken(
            token=token,
            client_id=claims.get("client_id") or claims.get("azp") or "",
            scopes=claims.get("scope", "").split(),
            expires_at=claims["exp"] + self.leeway,
            resource=self.audience,
            subject=claims["sub"],
            claims=claims,
        )


def _add_tools(server: MCPServer) -> None:
    """Register the tools."""

    @server.tool(description="Tell who calls.")
    def whoami() -> str:
        token = get_access_token()
        if token is None:
            return "nobody"
        claims = token.claims or {}
        return str(claims.get("preferred_username") or token.subject)

    @server.tool(description="Tell who calls, after some milliseconds, with progress on the way.")
    async def later(ms: int, ctx: Context) -> str:
        await ctx.report_progress(1, 2, "halfway")
        await asyncio.sleep(ms / 1000)
        return whoami()


@dataclass
class PythonServer(ProtectedServer):
    """The Python SDK's server, with the objects that decide who may call."""

    verifier: JwksVerifier = field(kw_only=True)


@contextlib.asynccontextmanager
async def python_server(
    issuer: str,
    jwks_url: str,
    *,
    port: int = 0,
    audience: str = "",
    scope: str = SCOPE,
    address: str = "127.0.0.1",
    url: str = "",
) -> AsyncIterator[PythonServer]:
    """Run the Python SDK's server in this loop, in both eras. `url` is its URL for clients, by default its address.
    `audience` is the audience of its tokens, by default its URL.
    """
    port = port or free_port()
    url = url or f"http://{authority(address, port)}/mcp"
    verifier = JwksVerifier(issuer, jwks_url, audience or url)
    auth = AuthSettings(
        issuer_url=AnyHttpUrl(issuer),
        resource_server_url=AnyHttpUrl(url),
        required_scopes=[scope] if scope else [],
        validate_token_resource=False,  # the verifier checks this
    )
    mcp = MCPServer("protected", version="1", auth=auth, token_verifier=verifier)
    _add_tools(mcp)
    any_host = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = mcp.streamable_http_app(transport_security=any_host)
    running = PythonServer(url, verifier=verifier)

    async def record_request(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            running.seen.append(SeenRequest(scope["method"], scope["path"], headers))
        await app(scope, receive, send)

    async with serve_asgi(record_request, address=address, port=port):
        yield running


@contextlib.asynccontextmanager
async def typescript_server(
    issuer: str, jwks_url: str, *, port: int = 0, scope: str = SCOPE
) -> AsyncIterator[ProtectedServer]:
    """Run the TypeScript SDK's server as a process, in both eras. Skips the test if its packages are not available."""
    require_program("node")
    require_program("npm")
    program = await asyncio.to_thread(build_program, _SOURCES / "typescript", "protected-typescript", build_node)
    port = port or free_port()
    process = await asyncio.create_subprocess_exec(
        "node", program / "server.mjs", str(port), issuer, jwks_url, scope, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            assert await process.stdout.readline(), "the server ended"
        yield ProtectedServer(f"http://127.0.0.1:{port}/mcp")
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()
