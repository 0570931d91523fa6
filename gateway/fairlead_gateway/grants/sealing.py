"""Seals stored grants with AES-256-GCM. No I/O.

The grants of each user are sealed with another data key, which HKDF-SHA256 (RFC 5869) derives from the store's key and
the user. User, server, issuer, version and key id are associated data.

This module is imported with the first grant, because `cryptography` takes megabytes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fairlead_gateway.grants.sealed_grant import SealedGrant
from fairlead_gateway.grants.sealing_keys import KEY_BYTES, SealingKey
from fairlead_mcp.oauth.stored_grant import GrantKey, GrantStoreError, StoredGrant, UnreadableGrant

_NONCE_BYTES: Final = 12
_INFO: Final = b"fairlead grant of "
_SIGN_IN: Final = "sign in again"


class GrantSealer:
    """Seals with the first key, and opens with any of them."""

    def __init__(self, keys: Sequence[SealingKey]) -> None:
        self._keys = {key.id: key for key in keys}
        self._sealing_key = keys[0]

    def knows(self, record: SealedGrant) -> bool:
        """Whether the record's key is known."""
        return record.key_id in self._keys

    def seal(self, key: GrantKey, grant: StoredGrant, version: str) -> SealedGrant:
        """Seal a grant. Raises GrantStoreError for a grant that is too large."""
        if not grant.fits:
            raise GrantStoreError(
                f"the grant for {key.server} has more than {grant.max_bytes} bytes: its refresh token or its list of "
                "scopes is too long to be stored"
            )
        nonce = os.urandom(_NONCE_BYTES)
        context = _associated_data(key, grant.issuer, version, self._sealing_key.id)
        sealed = _cipher(self._sealing_key, key.person).encrypt(nonce, msgspec.json.encode(grant), context)
        return SealedGrant(key.person, key.server, grant.issuer, version, self._sealing_key.id, nonce, sealed)

    def open(self, key: GrantKey, record: SealedGrant) -> StoredGrant:
        """Open the record of `key`. Raises UnreadableGrant if the sealing key is unknown, or if the record was changed
        or belongs to another user or server.
        """
        sealing_key = self._keys.get(record.key_id)
        if sealing_key is None:
            raise UnreadableGrant(
                f"the grant for {key.server} is sealed with the key {record.key_id!r:.70}, which is not available: "
                f"bring the key back (a key of the keyring: unlock the keyring and start again), or {_SIGN_IN}"
            )
        try:
            text = _cipher(sealing_key, key.person).decrypt(
                record.nonce, record.sealed, _associated_data(key, record.issuer, record.version, record.key_id)
            )
            grant = msgspec.json.decode(text, type=StoredGrant)
        except (InvalidTag, ValueError, msgspec.MsgspecError):
            grant = None
        if grant is None or grant.issuer != record.issuer:
            raise UnreadableGrant(
                f"the stored grant for {key.server} was changed, or belongs to somebody else: {_SIGN_IN}"
            )
        return grant


def _cipher(key: SealingKey, person: bytes) -> AESGCM:
    return AESGCM(HKDF(SHA256(), KEY_BYTES, salt=None, info=_INFO + person).derive(key.secret))


def _associated_data(key: GrantKey, issuer: str, version: str, key_id: str) -> bytes:
    return msgspec.json.encode((key.person, key.server, issuer, version, key_id))
