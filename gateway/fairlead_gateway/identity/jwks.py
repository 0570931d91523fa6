"""Fetches and caches the key set of an issuer.

Keys stay in use while the issuer cannot be reached, and are fetched again when a token names an unknown key. Such
fetches are limited to one per `COOL_DOWN`. Fetches have a timeout and a size limit and follow no redirects.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

import msgspec
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key

from fairlead_gateway.identity.discovery import IssuerMetadata, discover, fetch
from fairlead_gateway.identity.issuers_file import Issuer, is_private
from fairlead_mcp.oauth.errors import BAD_ANSWER, DISCOVERY, GrantFailed

log = logging.getLogger(__name__)

COOL_DOWN: Final = 10.0
"""Minimum seconds between two fetches because of unknown keys."""
FRESH_SECONDS: Final = 300.0
"""Seconds between periodic fetches, which find withdrawn keys."""
FIRST_PAUSE: Final = 1.0
"""First pause in seconds between attempts while the issuer cannot be reached; it doubles with each failure."""
LONGEST_PAUSE: Final = 30.0
"""Maximum pause in seconds between attempts while the issuer cannot be reached."""
MAX_KEYS: Final = 64
_KINDS: Final = frozenset({"RSA", "EC", "OKP"})
"""Asymmetric key types, values of `kty` (RFC 7518 section 6.1, RFC 8037)."""
_PRIVATE: Final = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth"})
"""Private members of a JWK (RFC 7518 section 6)."""


class _KeysMetadata(IssuerMetadata, frozen=True):
    jwks_uri: str


class _KeySet(msgspec.Struct):
    keys: list[dict[str, Any]]


class IssuerKeys:
    """Cached key set of one issuer (RFC 7517). `clock` is in seconds."""

    def __init__(self, issuer: Issuer, clock: Callable[[], float], on_withdrawal: Callable[[set[str]], None]) -> None:
        """Create an empty cache. `on_withdrawal` is called with the ids of keys that the issuer no longer publishes."""
        self.issuer = issuer
        self._clock = clock
        self._on_withdrawal = on_withdrawal
        self._keys: dict[str, Key] | None = None
        self._last_fetch_at = float("-inf")
        self._has_failed = False
        self._fetch_lock = asyncio.Lock()

    @property
    def has_keys(self) -> bool:
        """Whether the keys were fetched at least once."""
        return self._keys is not None

    def find(self, kid: str | None) -> Key | None:
        """The key with an id; without an id, the issuer's only key. None if there is no such key."""
        keys = self._keys or {}
        if kid is None:
            return next(iter(keys.values())) if len(keys) == 1 else None
        return keys.get(kid)

    async def refetch(self) -> bool:
        """Fetch the keys again, unless that was done within `COOL_DOWN`; True if the last fetch was successful."""
        async with self._fetch_lock:
            if self._clock() - self._last_fetch_at >= COOL_DOWN:
                await self._refresh()
            return not self._has_failed

    async def keep_fresh(self) -> None:
        """Fetch the keys now and periodically, until cancelled."""
        pause = FIRST_PAUSE
        while True:
            async with self._fetch_lock:
                await self._refresh()
            await asyncio.sleep(pause if self._has_failed else FRESH_SECONDS)
            pause = min(2 * pause, LONGEST_PAUSE) if self._has_failed else FIRST_PAUSE

    async def _refresh(self) -> None:
        self._last_fetch_at = self._clock()
        try:
            keys = await self._fetch()
        except (GrantFailed, ValueError) as error:  # ValueError: the jwks_uri is not a URL
            self._has_failed = True
            consequence = "its last keys stay in use" if self.has_keys else "its tokens cannot be verified"
            log.warning("Keys of issuer %s cannot be fetched: %s; %s", self.issuer.issuer, error, consequence)
            return
        previous, self._keys, self._has_failed = self._keys or {}, keys, False
        withdrawn_ids = {
            kid for kid, key in previous.items() if kid not in keys or keys[kid].as_dict() != key.as_dict()
        }
        if withdrawn_ids:
            self._on_withdrawal(withdrawn_ids)

    async def _fetch(self) -> dict[str, Key]:
        uri = self.issuer.jwks_uri or await self._discover()
        return self._usable_keys(await fetch(self.issuer, uri, _KeySet), uri)

    async def _discover(self) -> str:
        url, metadata = await discover(self.issuer, _KeysMetadata)
        if not is_private(metadata.jwks_uri, self.issuer):
            message = f"the jwks_uri in {url} must be an https URL, but is {metadata.jwks_uri[:200]!r}"
            raise GrantFailed(message, cause=DISCOVERY)
        return metadata.jwks_uri

    def _usable_keys(self, key_set: _KeySet, uri: str) -> dict[str, Key]:
        """Public signature keys by id. Symmetric keys are ignored, because a key that verifies tokens could also sign
        them. Raises GrantFailed if no key is usable.
        """
        keys: dict[str, Key] = {}
        for number, data in enumerate(key_set.keys[:MAX_KEYS]):
            if data.get("kty") not in _KINDS or data.get("use", "sig") != "sig":
                continue
            public_members = {name: value for name, value in data.items() if name not in _PRIVATE}
            try:
                key = JWKRegistry.import_key(public_members)
            except (JoseError, ValueError, TypeError) as error:
                kid = str(data.get("kid", number))[:64]
                text = "Key %r of issuer %s is ignored, so tokens signed with it are rejected: %s"
                log.warning(text, kid, self.issuer.issuer, type(error).__name__)
                continue
            keys[str(data.get("kid", f"#{number}"))] = key
        if not keys:
            raise GrantFailed(f"{uri} has no usable public key for signatures", cause=BAD_ANSWER)
        return keys
