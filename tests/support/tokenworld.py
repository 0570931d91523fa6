"""A source of tokens and its provider, with clocks that a test sets.

async with world(scopes=("read",)) as tools:
    token = await tools.source.obtain(tools.person("alice"))
    tools.later(299)
    assert tools.request_count == 1
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fairlead_api.documents.catalog import Credential
from fairlead_api.documents.oauth import TOKEN_EXCHANGE
from fairlead_mcp.oauth.errors import GrantFailed
from fairlead_mcp.oauth.subject import TokenSubject
from fairlead_mcp.oauth.token_source import TokenSource
from tokenendpoint import CLIENT, Client, TokenEndpoint, token_access, token_endpoint
from virtualtime import HandClock


class TokenWorld:
    """A provider, a source that requests tokens from it, and clocks that a test sets."""

    def __init__(self, provider: TokenEndpoint, source: TokenSource, clock: HandClock, monotonic: HandClock) -> None:
        self.provider = provider
        self.source = source
        self.clock = clock
        self.monotonic = monotonic

    def person(self, name: str, seconds: float = 600, **claims: Any) -> TokenSubject:
        """A user whose token expires `seconds` from now, by the test's clock."""
        ends = int(self.clock.now + seconds)
        token = self.provider.subject_token(name, **{"exp": ends, **claims})
        return TokenSubject(name.encode(), token, ends)

    def later(self, seconds: float) -> None:
        self.clock.now += seconds
        self.monotonic.now += seconds

    async def failure(self, subject: TokenSubject, **options: Any) -> GrantFailed:
        with pytest.raises(GrantFailed) as failed:
            await self.source.obtain(subject, **options)
        return failed.value

    @property
    def request_count(self) -> int:
        """Number of token requests."""
        return len(self.provider.requests)


@contextlib.asynccontextmanager
async def world(
    grant: str = TOKEN_EXCHANGE,
    *,
    entra: bool = False,
    client: Client | None = None,
    credential: Credential | None = None,
    options: dict[str, Any] | None = None,
    **members: Any,
) -> AsyncIterator[TokenWorld]:
    """`members`: members of the settings. `options`: members of the TokenAccess."""
    clock, monotonic = HandClock(time.time()), HandClock(time.monotonic())
    async with token_endpoint(entra=entra) as provider:
        if client is not None:
            provider.clients[CLIENT] = client
        access = token_access(clock=clock, **(options or {"monotonic": monotonic}))
        source = TokenSource(provider.settings(grant, **members), credential or provider.credential(), access)
        try:
            yield TokenWorld(provider, source, clock, monotonic)
        finally:
            await source.aclose()
