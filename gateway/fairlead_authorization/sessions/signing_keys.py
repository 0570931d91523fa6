"""Keys of the gateway's own tokens, in the store of grants that all replicas share.

The first replica that needs keys creates them. Each replica reads them periodically, and when a token names an unknown
key. While the store cannot be reached, the keys that were read last stay in use.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from joserfc.jwk import ECKey, Key

from fairlead_authorization.sessions.key_ring import current_keys, first_keys, signing_key
from fairlead_authorization.sessions.session import SessionStoreUnavailable
from fairlead_authorization.sessions.token_sealer import TokenSealer
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStore, GrantStoreError, StoredGrant, UnreadableGrant
from fairlead_mcp.oauth.stored_session import StoredTokenKeys

log = logging.getLogger(__name__)

KEYS: Final = GrantKey(b"", "token-keys")
FRESH_SECONDS: Final = 300.0
"""Time after which the keys are read again."""
COOL_DOWN: Final = 2.0
"""Minimum number of seconds between two reads because of unknown keys."""
_ATTEMPTS: Final = 4
"""Maximum number of attempts to write, each of which may conflict with another replica."""


class _KeysInUse(NamedTuple):
    """The keys in the form in which this replica uses them."""

    stored: StoredTokenKeys
    by_id: dict[str, ECKey]
    token_sealer: TokenSealer


class TokenSigner(NamedTuple):
    """The key that signs, with its id."""

    id: str
    key: ECKey


class SigningKeys:
    """Keys of one installation. `now` is in seconds since the epoch, `clock` is any monotonic clock."""

    def __init__(
        self, store: GrantStore, now: Callable[[], float] = time.time, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._now = now
        self._clock = clock
        self._keys: _KeysInUse | None = None
        self._read_at = float("-inf")
        self._failed_at = float("-inf")
        self._lock = asyncio.Lock()
        self._reading: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to read the keys periodically."""
        self._reading = asyncio.get_running_loop().create_task(self._keep_fresh(), name="keys of tokens")

    async def aclose(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    def find(self, kid: str | None) -> Key | None:
        """The public key with an id, among the keys that were read."""
        return None if self._keys is None or kid is None else self._keys.by_id.get(kid)

    async def refetch(self) -> bool:
        """Read the keys again, unless they were read just now; True if the store has answered."""
        try:
            await self._read(COOL_DOWN)
        except SessionStoreUnavailable:
            return False
        return self._read_at > self._failed_at

    async def signer(self) -> TokenSigner:
        """The key that signs now. Raises SessionStoreUnavailable."""
        keys = await self._read(FRESH_SECONDS)
        key = signing_key(keys.stored, self._now())
        return TokenSigner(key.id, keys.by_id[key.id])

    async def token_sealer(self) -> TokenSealer:
        """Sealer of codes and refresh tokens. Raises SessionStoreUnavailable."""
        return (await self._read(FRESH_SECONDS)).token_sealer

    async def document(self) -> dict[str, Any]:
        """The public keys (RFC 7517 section 5), including keys that will sign later. Raises SessionStoreUnavailable."""
        keys = await self._read(FRESH_SECONDS)
        return {
            "keys": [
                {**key.as_dict(private=False), "kid": kid, "use": "sig", "alg": "ES256"}
                for kid, key in keys.by_id.items()
            ]
        }

    # Internals

    async def _keep_fresh(self) -> None:
        while True:
            try:
                await self._read(0.0)
            except SessionStoreUnavailable as error:
                log.warning("The keys of the gateway's tokens cannot be read: %s", error)
            except Exception:
                log.exception("Reading the keys of the gateway's tokens failed")
            await asyncio.sleep(FRESH_SECONDS)

    async def _read(self, max_age: float) -> _KeysInUse:
        """The keys. They are read again if the last read is more than `max_age` seconds ago. Raises
        SessionStoreUnavailable if no keys were read.
        """
        async with self._lock:
            keys = self._keys
            if keys is not None and self._clock() < max(self._read_at + max_age, self._failed_at + COOL_DOWN):
                return keys
            try:
                stored = await self._read_current()
            except GrantStoreError as error:
                if keys is None:
                    raise SessionStoreUnavailable(str(error)) from error
                self._failed_at = self._clock()
                return keys
            self._read_at = self._clock()
            if keys is None or keys.stored != stored:
                self._keys = keys = _import_keys(stored)
            return keys

    async def _read_current(self) -> StoredTokenKeys:
        """The stored keys, after adding a key that is due. Raises GrantStoreError."""
        for _ in range(_ATTEMPTS):
            replaces: str | None = ""
            stored: StoredTokenKeys | None = None
            try:
                versioned = await self._store.read(KEYS)
            except UnreadableGrant:
                if self._keys is not None:  # another replica may already have a newer sealing key of the store
                    raise
                log.warning(
                    "The keys of the gateway's tokens cannot be opened: new ones are made, and people sign in again"
                )
                replaces = None
            else:
                if versioned is not None:
                    stored, replaces = versioned.grant.token_keys, versioned.version
            now = self._now()
            current = first_keys(now) if stored is None else current_keys(stored, now)
            if current is stored:
                return current
            grant = StoredGrant(issuer="", client_id="", granted_at=now, token_keys=current)
            if await self._store.write(KEYS, grant, replaces) is not None:
                return current
        raise GrantStoreError("the keys of the gateway's tokens change all the time: try again")


def _import_keys(stored: StoredTokenKeys) -> _KeysInUse:
    by_id = {key.id: ECKey.import_key(dict(key.jwk)) for key in stored.signing}
    return _KeysInUse(stored, by_id, TokenSealer(stored.sealing))
