"""Dependencies of a `TokenSource`: the server's address, resolver, certificates, clocks and callbacks."""

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
"""Maximum number of cached tokens of one server. Beyond it, the least recently used token is dropped."""

MakeTls: TypeAlias = Callable[[str | None], Awaitable[tls.SSLContext]]
"""Makes a TLS context that trusts the CA certificates in a PEM text, or the system's certificates for None."""
ObserveGrant: TypeAlias = Callable[[TokenSubject, float], None]
"""Called after each successful token request, with its duration in seconds; must not raise. A failure is raised for
each caller instead.
"""


async def load_tls(ca_bundle: str | None) -> tls.SSLContext:
    """Make a TLS context in a thread, because reading the system's certificates takes tens of milliseconds.

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
    """Dependencies of the token source of one server."""

    server_url: str
    """URL of the MCP server; empty if users sign in to the gateway itself."""
    resolve: Resolve
    """Resolver wrapped by `Egress.guard`, so that addresses are checked right before the connection."""
    server: str = ""
    """Name of the server in keys of grants (`GrantKey.server`): `NAMESPACE/NAME`."""
    server_uid: str = ""
    """`Catalog.uid` of the server, which changes when the server is removed and added again; empty if users do not sign
    in.
    """
    host_header: str | None = None
    """`Host` of requests to the server; None: the host of the URL."""
    server_ca_bundle: str | None = None
    """PEM certificates that verify the server when its metadata is read; None: the system's."""
    make_tls: MakeTls = load_tls
    clock: Callable[[], float] = time.time
    """Seconds since the epoch."""
    monotonic: Callable[[], float] = time.monotonic
    """Monotonic seconds, for pauses and time limits."""
    max_tokens: int = MAX_TOKENS
    observe: ObserveGrant = _ignore
    on_forget: Callable[[bytes], None] = _ignore_person
    """Called with a person whose grant has ended or was replaced; must not raise."""
    is_own_audience: Callable[[str], bool] = _no_audience
    """Whether the gateway accepts tokens with this audience. Servers must not get such a token for a caller."""

    @property
    def address(self) -> str:
        """Address of the server: its URL, and its `Host` if that differs."""
        return self.server_url if self.host_header is None else f"{self.server_url} (Host {self.host_header})"
