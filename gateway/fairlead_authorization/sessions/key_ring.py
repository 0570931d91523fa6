"""Decides which key signs access tokens, and when the next one is created. Pure module, except that keys are random.

A key is published some time before it signs, so that caches of the keys have it by then. It stays published until its
last token has expired. The first key of an installation signs at once.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final

from joserfc.jwk import ECKey

from fairlead_mcp.oauth.stored_session import StoredSigningKey, StoredTokenKeys

SIGNING_SECONDS: Final = 30 * 86_400.0
"""Time for which a key signs."""
PUBLISHED_SECONDS: Final = 2 * 3_600.0
"""Time for which a key is published before it signs: one hour, and another hour for replicas that read the keys late.
"""
RETIRED_SECONDS: Final = 2 * 3_600.0
"""Time for which a key stays published after the next key has begun to sign: the longest lifetime of a token, the
tolerated difference of clocks, and the longest time between two reads of the keys by a replica.
"""
SEALING_BYTES: Final = 64


def new_signing_key(signs_from: float) -> StoredSigningKey:
    """A random key on the curve P-256, whose id is its thumbprint (RFC 7638)."""
    key = ECKey.generate_key("P-256", auto_kid=True)
    members = key.as_dict(private=True)
    return StoredSigningKey(
        id=str(members["kid"]),
        signs_from=signs_from,
        jwk={name: str(members[name]) for name in ("kty", "crv", "x", "y", "d")},
    )


def first_keys(now: float) -> StoredTokenKeys:
    """Create the first keys of an installation."""
    return StoredTokenKeys(signing=(new_signing_key(now),), sealing=secrets.token_bytes(SEALING_BYTES))


def current_keys(
    keys: StoredTokenKeys, now: float, make: Callable[[float], StoredSigningKey] = new_signing_key
) -> StoredTokenKeys:
    """Update keys: add the next key if it is due, and remove keys that are no longer needed. Returns `keys` itself if
    nothing changes.
    """
    signing = keys.signing
    newest = signing[-1]
    if newest.signs_from + SIGNING_SECONDS - PUBLISHED_SECONDS <= now:
        signing = (*signing, make(max(newest.signs_from + SIGNING_SECONDS, now + PUBLISHED_SECONDS)))
    while len(signing) > 1 and signing[1].signs_from + RETIRED_SECONDS <= now:
        signing = signing[1:]
    if signing is keys.signing:
        return keys
    return StoredTokenKeys(signing=signing, sealing=keys.sealing)


def signing_key(keys: StoredTokenKeys, now: float) -> StoredSigningKey:
    """The key that signs now: the newest key that may sign already; the first key if the clock is slow."""
    return next((key for key in reversed(keys.signing) if key.signs_from <= now), keys.signing[0])
