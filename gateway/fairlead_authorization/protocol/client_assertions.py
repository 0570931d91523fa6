"""Assertions with which clients authenticate (`private_key_jwt`, RFC 7523 section 3)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry

from fairlead_authorization.clients.client import RegisteredClient
from fairlead_authorization.clients.client_ids import document_address, lot_of
from fairlead_authorization.protocol.metadata import ASSERTION_ALGORITHMS
from fairlead_authorization.sessions.spent_assertions import MAX_ALIVE, SpentAssertions
from fairlead_gateway.identity.authorization_server import ANY_HOST
from fairlead_gateway.identity.jwt_authenticator import json_of, time_of

MAX_ASSERTION: Final = 8 << 10
"""Characters."""
MAX_SECONDS: Final = 600.0
"""Most seconds until `exp`: used assertions are remembered as long."""
LEEWAY_SECONDS: Final = 30.0
MAX_OF_STRANGERS: Final = 128
"""Limit on the assertions that a replica remembers of clients that nobody named, which take some 40 kB together."""
MAX_JTI: Final = 256


def claims_of(assertion: str) -> dict[str, Any]:
    """Claims of an assertion, of which nothing is verified; empty if it is unreadable."""
    parts = assertion.split(".")
    readable = len(parts) == 3 and len(assertion) <= MAX_ASSERTION
    return dict(json_of(parts[1]) or {}) if readable else {}


def verified_claims(
    client: RegisteredClient, assertion: str, audiences: tuple[str, ...], now: float
) -> Mapping[str, Any] | None:
    """Claims of an assertion that one of the client's keys has signed for this server, and that has not expired; None
    for any other. `audiences` are the issuer and the URL of the endpoint; `now` is in seconds since the epoch.
    """
    if not client.keys or len(assertion) > MAX_ASSERTION:
        return None
    registry = JWSRegistry(strict_check_header=False)
    registry.max_header_length = registry.max_payload_length = MAX_ASSERTION
    try:
        keys = KeySet.import_key_set({"keys": [dict(key) for key in client.keys]})
        claims = jwt.decode(assertion, keys, algorithms=list(ASSERTION_ALGORITHMS), registry=registry).claims
    except (JoseError, ValueError, TypeError, RecursionError):
        return None
    named = claims.get("aud")
    audience = [named] if isinstance(named, str) else named if isinstance(named, list) else []
    ends, begins = time_of(claims.get("exp")), time_of(claims.get("nbf", 0))
    if ends is None or begins is None:
        return None
    in_time = now - LEEWAY_SECONDS < ends < now + MAX_SECONDS and begins <= now + LEEWAY_SECONDS
    is_own = claims.get("iss") == claims.get("sub") == client.id
    is_for_us = len(audience) == 1 and audience[0] in audiences
    return claims if is_own and in_time and is_for_us else None


class UsedAssertions:
    """Assertions that any replica has taken: each is good once (RFC 7523 section 3, `jti`). `hosts` are those of
    `clientHosts`.

    With the host `*` and by registration anybody is a client, so all of these share some room. A client that an
    administrator or the settings named has room of its own.
    """

    def __init__(self, spent: SpentAssertions, hosts: Collection[str]) -> None:
        self._spent = spent
        self._hosts = hosts

    async def take(self, client: RegisteredClient, claims: Mapping[str, Any]) -> bool:
        """Take the assertion with these verified claims; False if it has no `jti` or was taken before. Raises
        SessionsAway.
        """
        name, ends = claims.get("jti"), time_of(claims.get("exp"))
        if not isinstance(name, str) or not 0 < len(name) <= MAX_JTI or ends is None:
            return False
        lot = self._lot(client)
        room = MAX_OF_STRANGERS if lot == ANY_HOST else MAX_ALIVE
        ends_at = ends + 2 * LEEWAY_SECONDS  # on the clock of whichever replica
        return await self._spent.spend(f"client {client.id}", name, ends_at, lot=lot, room=room)

    def _lot(self, client: RegisteredClient) -> str:
        if client.kind == "document":
            return lot_of(document_address(client.id), self._hosts)
        return ANY_HOST if client.kind == "registered" else f"client {client.id}"
