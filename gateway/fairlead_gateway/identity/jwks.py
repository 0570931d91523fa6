"""Keys of one issuer: found, fetched, kept while the issuer is away, fetched again where a token names another.

A fetch is bounded in time and size and follows no redirects; however many tokens name unknown keys, the issuer is asked
once per `COOL_DOWN`.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Any, Final

import aiohttp
import msgspec
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key

from fairlead_gateway.identity.configuration import Issuer, is_private
from fairlead_gateway.identity.discovery import (
    IssuerAway,
    IssuerMetadata,
    certificates_of,
    discover,
    failure_of,
    fetch,
)

log = logging.getLogger(__name__)

COOL_DOWN: Final = 10.0
"""Seconds between two fetches that tokens cause."""
FRESH_SECONDS: Final = 300.0
"""After which keys are fetched again by themselves, so that one that was withdrawn ends."""
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 30.0
"""Seconds between attempts while the issuer is away."""
MAX_KEYS: Final = 64
_KINDS: Final = frozenset({"RSA", "EC", "OKP"})


class _KeysMetadata(IssuerMetadata, frozen=True):
    jwks_uri: str


class _Set(msgspec.Struct):
    keys: list[dict[str, Any]]


class IssuerKeys:
    """Key set of one issuer (RFC 7517), with its cache. `clock` in seconds."""

    def __init__(self, issuer: Issuer, clock: Callable[[], float], withdrawn: Callable[[set[str]], None]) -> None:
        """`withdrawn` gets the ids of keys that the issuer no longer has."""
        self.issuer = issuer
        self._clock = clock
        self._withdrawn = withdrawn
        self._keys: dict[str, Key] | None = None
        self._asked_at = float("-inf")
        self._failed = False
        self._fetching = asyncio.Lock()

    @property
    def has_keys(self) -> bool:
        """Whether there are any."""
        return self._keys is not None

    def find(self, kid: str | None) -> Key | None:
        """The key of that id; without an id the only one that there is."""
        keys = self._keys or {}
        if kid is None:
            return next(iter(keys.values())) if len(keys) == 1 else None
        return keys.get(kid)

    async def refetch(self) -> bool:
        """Ask the issuer again, unless that was done a moment ago; whether what is known now is what it says."""
        async with self._fetching:
            if self._clock() - self._asked_at >= COOL_DOWN:
                await self._refresh()
            return not self._failed

    async def keep_fresh(self) -> None:
        """Fetch now and ever again, until cancelled."""
        pause = FIRST_PAUSE
        while True:
            async with self._fetching:
                await self._refresh()
            await asyncio.sleep(pause if self._failed else FRESH_SECONDS)
            pause = min(2 * pause, LONGEST_PAUSE) if self._failed else FIRST_PAUSE

    async def _refresh(self) -> None:
        self._asked_at = self._clock()
        try:
            keys = await self._fetch()
        except IssuerAway as error:
            self._failed = True
            consequence = "its last keys are used" if self.has_keys else "its tokens cannot be checked"
            log.warning("%s: %s; %s", self.issuer.issuer, error, consequence)
            return
        before, self._keys, self._failed = self._keys or {}, keys, False
        gone = {kid for kid, key in before.items() if kid not in keys or keys[kid].as_dict() != key.as_dict()}
        if gone:
            self._withdrawn(gone)

    async def _fetch(self) -> dict[str, Key]:
        timeout = aiohttp.ClientTimeout(total=None)  # `fetched` bounds each request
        try:
            verify = certificates_of(self.issuer)
            async with aiohttp.ClientSession(timeout=timeout) as session:
                uri = self.issuer.jwks_uri or await self._discover(session, verify)
                return _usable(await fetch(session, uri, verify, _Set))
        except (TimeoutError, OSError, aiohttp.ClientError, ValueError) as error:
            raise IssuerAway(f"its keys cannot be fetched: {failure_of(error)}") from error

    async def _discover(self, session: aiohttp.ClientSession, verify: ssl.SSLContext | bool) -> str:
        url, metadata = await discover(session, self.issuer, verify, _KeysMetadata)
        if not is_private(metadata.jwks_uri, self.issuer):
            raise IssuerAway(f"{url} leads to keys without TLS, at {metadata.jwks_uri[:200]!r}: that must be https")
        return metadata.jwks_uri


def _usable(key_set: _Set) -> dict[str, Key]:
    """Public keys for signatures, by id. Secret ones are none: a token that was signed with one proves nothing."""
    keys: dict[str, Key] = {}
    for number, data in enumerate(key_set.keys[:MAX_KEYS]):
        if data.get("kty") not in _KINDS or data.get("use", "sig") != "sig":
            continue
        public = {name: value for name, value in data.items() if name not in ("d", "p", "q", "dp", "dq", "qi", "oth")}
        try:
            key = JWKRegistry.import_key(public)
        except (JoseError, ValueError, TypeError):
            log.warning("A key of an issuer cannot be used: %r", str(data.get("kid", number))[:64])
            continue
        keys[str(data.get("kid", f"#{number}"))] = key
    if not keys:
        raise IssuerAway("it has no usable key")
    return keys
