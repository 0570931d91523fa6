"""Surroundings of a source of tokens: the server's address, resolver, certificates and clocks."""

from __future__ import annotations

import asyncio
import ssl as tls
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from fairlead_mcp.http.dial import Resolve
from fairlead_mcp.oauth.subject import TokenSubject

MAX_TOKENS: Final = 8_192
"""Limit on cached tokens of one server, beyond which the one used longest ago is dropped."""

MakeTls: TypeAlias = Callable[[str | None], Awaitable[tls.SSLContext]]
"""Makes a TLS context that trusts the CA certificates in a PEM text, or those of the system for None."""
ObserveGrant: TypeAlias = Callable[[TokenSubject, float], None]
"""Called after each grant that gave a token, with its duration in seconds. It may not raise. A failure is raised for
each caller, who observes it there."""


async def load_tls(ca_bundle: str | None) -> tls.SSLContext:
    """Make a TLS context in a thread, as reading the system's certificates takes tens of milliseconds.

    Raises ssl.SSLError or ValueError for an invalid bundle.
    """
    return await asyncio.to_thread(tls.create_default_context, cadata=ca_bundle)


def _no_audience(audience: str) -> bool:
    return False


def _ignore(subject: TokenSubject, seconds: float) -> None:
    """Observe nothing."""


def _ignore_person(person: bytes) -> None:
    """Do nothing about a person."""


@dataclass(frozen=True)
class TokenAccess:
    """Surroundings of the source of tokens of one server."""

    server_url: str
    """URL of the MCP server; empty where the gateway signs a person in to itself."""
    resolve: Resolve
    """Resolver that `Egress.guard` has wrapped, so that addresses are checked right before the connection."""
    server: str = ""
    """Name of the server in keys of grants (`GrantKey.server`): `NAMESPACE/NAME`."""
    server_uid: str = ""
    """`Catalog.uid` of the server, another one after it was removed; empty where users do not sign in.
    """
    host_header: str | None = None
    """`Host` of requests to the server, in place of the URL's."""
    server_ca_bundle: str | None = None
    """PEM certificates that verify the server, from which protected resource metadata is read; None: the system's."""
    make_tls: MakeTls = load_tls
    clock: Callable[[], float] = time.time
    """Seconds since the epoch."""
    monotonic: Callable[[], float] = time.monotonic
    """Monotonic seconds, in which pauses and time limits are measured."""
    max_tokens: int = MAX_TOKENS
    observe: ObserveGrant = _ignore
    forgotten: Callable[[bytes], None] = _ignore_person
    """Called with a person whose grant has ended or is another one now. It may not raise."""
    is_own_audience: Callable[[str], bool] = _no_audience
    """Whether the gateway accepts tokens of this audience, which no server may get in exchange for a caller's."""

    @property
    def address(self) -> str:
        """Where the server is: its URL, and its `Host` where that is another."""
        return self.server_url if self.host_header is None else f"{self.server_url} (Host {self.host_header})"
