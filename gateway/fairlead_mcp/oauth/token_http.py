"""Sends the HTTP requests of grants and discovery: with limits, without redirects, and only to allowed addresses."""

from __future__ import annotations

import ssl as tls
from typing import Final

from fairlead_mcp.addresses import authority
from fairlead_mcp.egress import NOT_ALLOWED
from fairlead_mcp.errors import ConnectFailed, ConnectionLost, McpError, PoolFull, Timeout
from fairlead_mcp.http.answer import Answer
from fairlead_mcp.http.pool import Pool
from fairlead_mcp.http.reading import plain_address
from fairlead_mcp.http.target import Target, with_body
from fairlead_mcp.oauth.errors import (
    BAD_ANSWER,
    CONFIGURATION,
    HOST_NOT_ALLOWED,
    PROVIDER_ERROR,
    TIMEOUT,
    UNREACHABLE,
    GrantFailed,
)
from fairlead_mcp.oauth.token_access import TokenAccess

MAX_BODY_BYTES: Final = 64 << 10
"""Maximum size of the body of an answer."""
REQUEST_SECONDS: Final = 5.0
"""Time limit of one request, including its connection."""
CONNECT_SECONDS: Final = 4.5
"""Time limit of the lookup of the host name and the connection."""
CONNECTIONS: Final = 16
"""Maximum number of connections to one host."""
_HEAD: Final = b"%b %b HTTP/1.1\r\nHost: %b\r\nAccept: %b\r\nAccept-Encoding: identity\r\nUser-Agent: fairlead\r\n"
FORM: Final = b"application/x-www-form-urlencoded"
JSON: Final = b"application/json"
TOKEN_ENDPOINT: Final = "token endpoint"  # noqa: S105  # the name of an endpoint, not a secret


class TokenHttp:
    """Sends requests to one host, over its own connection pool. `kind` names the role of the host in messages."""

    def __init__(self, target: Target, access: TokenAccess, ssl: tls.SSLContext | None, kind: str) -> None:
        self._target = target
        self._is_token_endpoint = kind == TOKEN_ENDPOINT
        self._kind = f"the {kind} {authority(target.host, target.port)}"
        self._clock = access.monotonic
        self._pool = Pool(
            target.host,
            target.port,
            ssl=ssl,
            limit=CONNECTIONS,
            connect_timeout=CONNECT_SECONDS,
            resolve=access.resolve,
            clock=access.monotonic,
        )

    async def get(self, path: bytes, *, accept: bytes = JSON, max_bytes: int = MAX_BODY_BYTES) -> Answer:
        """The answer to a GET, with any status: redirects are not followed. Raises GrantFailed, also for a body of more
        than `max_bytes`.
        """
        return await self._exchange(_HEAD % (b"GET", path, self._target.authority, accept) + b"\r\n", max_bytes)

    async def post(self, body: bytes, authorization: bytes = b"", *, kind: bytes = FORM) -> Answer:
        """The answer to a POST to the target's own path. `kind` is the media type of `body`, `authorization` a header
        line or empty. Raises GrantFailed, also for a redirect.
        """
        head = _HEAD % (b"POST", self._target.path, self._target.authority, JSON)
        request = with_body(b"%bContent-Type: %b\r\n%b" % (head, kind, authorization), body)
        answer = await self._exchange(request, MAX_BODY_BYTES)
        if 300 <= answer.status < 400:
            location = plain_address(answer.headers.get(b"location", b"").decode("latin-1"))
            advice = "set tokenURL to the final URL" if self._is_token_endpoint else "correct the issuer's metadata"
            raise GrantFailed(
                f"{self._kind} redirects to {location[:200]} ({answer.status}), which is not followed, because the "
                f"request contains a credential: {advice}",
                cause=BAD_ANSWER,
            )
        return answer

    async def aclose(self) -> None:
        await self._pool.aclose()

    async def _exchange(self, request: bytes, max_bytes: int) -> Answer:
        deadline = self._clock() + REQUEST_SECONDS
        try:
            try:
                answer = await self._pool.exchange(request, deadline=deadline, max_bytes=max_bytes)
            except ConnectionLost as error:
                if not error.keep_alive_race:
                    raise
                answer = await self._pool.exchange(request, deadline=deadline, max_bytes=max_bytes)
        except McpError as error:
            raise self._failure(error) from error
        if answer.streamed:
            raise GrantFailed(f"{self._kind} sent an event stream instead of JSON: correct its URL", cause=BAD_ANSWER)
        return answer

    def _failure(self, error: McpError) -> GrantFailed:
        if error.reason == NOT_ALLOWED:
            return GrantFailed(f"{self._kind} cannot be used: {error}", cause=HOST_NOT_ALLOWED)
        if isinstance(error, ConnectFailed):
            return GrantFailed(f"{self._kind} cannot be reached: {error}", cause=UNREACHABLE)
        if isinstance(error, Timeout) and not error.sent:  # no connection was free, but one may be at any time
            text = f"{self._kind} is busy with {CONNECTIONS} other requests: try again"
            return GrantFailed(text, cause=TIMEOUT)
        if isinstance(error, Timeout):
            return GrantFailed(f"{self._kind} did not answer within {REQUEST_SECONDS:g} s: try again", cause=TIMEOUT)
        if isinstance(error, ConnectionLost | PoolFull):
            return GrantFailed(f"{self._kind} gave no answer: {error}; try again", cause=PROVIDER_ERROR)
        return GrantFailed(f"{self._kind} sent an unusable answer: {error}", cause=BAD_ANSWER)


async def open_http(target: Target, access: TokenAccess, ca_bundle: str | None, kind: str) -> TokenHttp:
    """A `TokenHttp` with the TLS context that the host needs. Raises GrantFailed for an invalid CA bundle."""
    if not target.tls:
        return TokenHttp(target, access, None, kind)
    try:
        return TokenHttp(target, access, await access.make_tls(ca_bundle), kind)
    except (tls.SSLError, ValueError) as error:
        raise GrantFailed(f"the caBundle for the {kind} cannot be read: {error}", cause=CONFIGURATION) from error
