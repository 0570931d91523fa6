"""Caches that requests fill before their caller is authenticated are bounded in bytes, whatever is sent."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from fairlead_gateway.calls.sealed.sessions import SessionIds
from fairlead_gateway.core.client_message import Rejection
from fairlead_gateway.core.identity import Identity, Kind
from fairlead_gateway.endpoint import inbound
from fairlead_gateway.endpoint.trusted_proxies import TrustedProxies
from fairlead_gateway.identity.authenticator import Revoke, Verdict
from fairlead_gateway.identity.refusal import UNKNOWN_TOKEN
from fairlead_gateway.identity.request_authentication import CACHE_BYTES, Identities
from fairlead_mcp.addresses import AllowList
from gatewayworld import modern

SIZE = 60_000
MANY = 500


@pytest.fixture
def allocated_bytes() -> Iterator[Callable[[], int]]:
    """Function that returns the bytes allocated since the test began and not freed."""
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]

    def now() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before

    try:
        yield now
    finally:
        tracemalloc.stop()


def texts() -> Iterator[bytes]:
    """Many different long texts."""
    return (b"%d-" % number + b"y" * SIZE for number in range(MANY))


def test_long_hosts_are_not_kept(allocated_bytes: Callable[[], int]) -> None:
    allow = AllowList.for_bind("0.0.0.0")  # allows any host
    assert all(allow.allows_host(text) for text in texts())
    assert allocated_bytes() < 4 * SIZE


def test_long_session_ids_are_not_kept(allocated_bytes: Callable[[], int]) -> None:
    sessions = SessionIds()
    assert not any(sessions.read(text) for text in texts())
    assert allocated_bytes() < 4 * SIZE


def test_long_names_are_not_kept(allocated_bytes: Callable[[], int]) -> None:
    request = modern("tools/call", {"name": "demo__add"})
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":%b}}'
    body %= b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}'
    headers = {name.encode(): value.encode() for name, value in request.headers.items()}
    for text in texts():
        refused = inbound.classify({**headers, b"mcp-name": text}, body)
        assert isinstance(refused, Rejection)
        assert "Mcp-Name" in refused.message
    assert allocated_bytes() < 4 * SIZE


def test_long_zones_of_addresses_are_not_kept(allocated_bytes: Callable[[], int]) -> None:
    proxies = TrustedProxies(["10.0.0.0/8"])
    assert {proxies.client("10.0.0.1", b"fe80::1%" + text) for text in texts()} == {"10.0.0.1"}
    assert allocated_bytes() < 4 * SIZE


class _Sure:
    """Authenticator that gives every credential the same verdict."""

    kind: Kind = "jwt"
    cache_seconds = 3600.0

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict

    def recognizes(self, token: str) -> bool:
        return True

    def check(self, token: str) -> Verdict:
        return self._verdict

    async def look_up(self, token: str) -> Verdict:
        return self._verdict

    async def start(self, revoked: Revoke) -> None: ...

    async def aclose(self) -> None: ...


def credentials(many: int) -> Iterator[bytes]:
    return (b"Bearer %d-" % number + b"y" * 16_000 for number in range(many))


async def test_long_credentials_that_were_refused_are_not_kept(allocated_bytes: Callable[[], int]) -> None:
    identities = Identities([_Sure(UNKNOWN_TOKEN)])
    for credential in credentials(MANY):
        assert await identities.identify(credential) is UNKNOWN_TOKEN
    assert allocated_bytes() < 512 * MANY


async def test_long_credentials_that_are_good_are_kept_within_a_bound(allocated_bytes: Callable[[], int]) -> None:
    identities = Identities([_Sure(Identity(kind="jwt", principal="npc"))], now=lambda: 0.0)
    last = b""
    for last in credentials(6 * CACHE_BYTES // 16_000):
        assert isinstance(await identities.identify(last), Identity)
    assert allocated_bytes() < 3 * CACHE_BYTES
    assert identities.recall(last) is not None
