"""Opens the operator's sessions with access tokens that it obtains for itself (client credentials).

All sessions of one server share a client, and so its tokens, as long as one of them is open: a discovery, its
capability comparison and a notification stream that begin together need one grant. Afterwards nothing is kept; the next
discovery obtains a token again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from fairlead_api.documents.catalog import Credential, Endpoint, HttpEndpoint
from fairlead_api.meta import ServerKey
from fairlead_mcp.errors import McpError
from fairlead_mcp.http.dial import Resolve
from fairlead_mcp.masking import Mask
from fairlead_mcp.oauth.access_token import AccessToken
from fairlead_mcp.oauth.challenge import challenge_of
from fairlead_mcp.oauth.subject import GATEWAY
from fairlead_mcp.oauth.token_access import TokenAccess
from fairlead_mcp.oauth.token_source import TokenSource
from fairlead_mcp.session import McpSession
from fairlead_operator.ports import TokenCredential

Negotiate = Callable[[Credential], McpSession]
"""Makes a session, not connected yet, that sends a credential."""


class TokenClient:
    """Client of one server's issuer, with its tokens."""

    def __init__(self, credential: TokenCredential, endpoint: HttpEndpoint, resolve: Resolve) -> None:
        self.credential = credential
        self.endpoint = endpoint
        self.sessions = 0
        """Number of open sessions."""
        access = TokenAccess(
            endpoint.url, resolve, host_header=endpoint.host_header, server_ca_bundle=endpoint.ca_bundle
        )
        self._source = TokenSource(credential.oauth, credential, access)

    async def open(self, stack: AsyncExitStack, negotiate: Negotiate) -> McpSession:
        """Connect a session with a token and enter it into `stack`; if the server refuses the token, or wants one with
        more scopes, connect once more with another token.

        Raises McpError; GrantFailed if there is no token, or the server refuses each. A token that the server refuses
        later, during the session, is not used again.
        """
        token = await self._source.obtain(GATEWAY)
        try:
            return await self._connect(stack, negotiate, token)
        except McpError as error:
            challenge = challenge_of(error)
            if challenge is None:
                raise
            token = await self._source.obtain(GATEWAY, refused=token, challenge=challenge)
        try:
            return await self._connect(stack, negotiate, token)
        except McpError as error:
            challenge = challenge_of(error)
            if challenge is not None:  # raises GrantFailed, whose message says that the server refuses new tokens
                await self._source.obtain(GATEWAY, refused=token, challenge=challenge)
            raise

    async def _connect(self, stack: AsyncExitStack, negotiate: Negotiate, token: AccessToken) -> McpSession:
        sent = Credential(headers={**self.credential.headers, "Authorization": f"Bearer {token.value}"})
        mask = Mask(sent)
        try:
            session = await stack.enter_async_context(negotiate(sent))
        except McpError as error:
            raise mask.error(error)  # noqa: B904 - the same error, masked
        stack.push(partial(self._after_session, mask))
        return session

    def _after_session(self, mask: Mask, kind: object, error: BaseException | None, traceback: object) -> bool:
        """Mask the token in the error that ends a session, and forget the token if the server refused it."""
        if isinstance(error, McpError):
            mask.error(error)
            if challenge_of(error) is not None:
                self._source.forget(GATEWAY.person)
        return False

    async def aclose(self) -> None:
        """Close the connections to the issuer."""
        await self._source.aclose()


class TokenClients:
    """Clients of the servers with open sessions."""

    def __init__(self) -> None:
        self._clients: dict[ServerKey, TokenClient] = {}

    def __len__(self) -> int:
        return len(self._clients)

    @asynccontextmanager
    async def share(
        self, key: ServerKey, endpoint: Endpoint, credential: TokenCredential, resolve: Resolve
    ) -> AsyncIterator[TokenClient]:
        """The client of a server, which is closed after the last session that shares it. Raises McpError for an
        endpoint without HTTP requests.
        """
        if not isinstance(endpoint, HttpEndpoint):
            raise McpError(f"{key} cannot be sent a token per request: it does not use streamable HTTP")
        client = self._clients.get(key)
        if client is None or (client.credential, client.endpoint) != (credential, endpoint):
            client = self._clients[key] = TokenClient(credential, endpoint, resolve)
        client.sessions += 1
        try:
            yield client
        finally:
            client.sessions -= 1
            if client.sessions == 0:
                if self._clients.get(key) is client:
                    del self._clients[key]
                await client.aclose()
