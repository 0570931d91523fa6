"""Opens the operator's sessions with access tokens that it obtains for itself (client credentials).

All open sessions of one server share a client and its tokens: a discovery, its capability comparison and a
notification stream that begin together need one grant. The last session that ends closes the client; the next discovery
obtains a new token.
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

SessionFactory = Callable[[Credential], McpSession]
"""Makes an unconnected session that sends the given credential."""


class TokenClient:
    """OAuth client of one server's issuer, with the tokens obtained."""

    def __init__(self, credential: TokenCredential, endpoint: HttpEndpoint, resolve: Resolve) -> None:
        self.credential = credential
        self.endpoint = endpoint
        self.sessions = 0
        """Number of open sessions."""
        access = TokenAccess(
            endpoint.url, resolve, host_header=endpoint.host_header, server_ca_bundle=endpoint.ca_bundle
        )
        self._source = TokenSource(credential.oauth, credential, access)

    async def open(self, stack: AsyncExitStack, make_session: SessionFactory) -> McpSession:
        """Connect a session with a token and enter it into `stack`. If the server refuses the token or requires more
        scopes, obtain another token and connect once more.

        Raises McpError; GrantFailed if no token can be obtained, or the server refuses both. A token that the server
        refuses later, during the session, is not used again.
        """
        token = await self._source.obtain(GATEWAY)
        try:
            return await self._connect(stack, make_session, token)
        except McpError as error:
            challenge = challenge_of(error)
            if challenge is None:
                raise
            token = await self._source.obtain(GATEWAY, refused_token=token, challenge=challenge)
        try:
            return await self._connect(stack, make_session, token)
        except McpError as error:
            challenge = challenge_of(error)
            if challenge is not None:  # raises GrantFailed, whose message says that the server refuses new tokens
                await self._source.obtain(GATEWAY, refused_token=token, challenge=challenge)
            raise

    async def _connect(self, stack: AsyncExitStack, make_session: SessionFactory, token: AccessToken) -> McpSession:
        token_credential = Credential(headers={**self.credential.headers, "Authorization": f"Bearer {token.value}"})
        mask = Mask(token_credential)
        try:
            session = await stack.enter_async_context(make_session(token_credential))
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
    """OAuth clients of all servers with open sessions."""

    def __init__(self) -> None:
        self._clients: dict[ServerKey, TokenClient] = {}

    def __len__(self) -> int:
        return len(self._clients)

    @asynccontextmanager
    async def share(
        self, key: ServerKey, endpoint: Endpoint, credential: TokenCredential, resolve: Resolve
    ) -> AsyncIterator[TokenClient]:
        """The client of a server; closed when the last session that shares it ends. Raises McpError if the endpoint
        does not use streamable HTTP.
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
