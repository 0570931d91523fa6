"""Assertions with which clients authenticate (`private_key_jwt`, RFC 7523 section 3)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry

from fairlead_authorization.clients.client import RegisteredClient
from fairlead_authorization.clients.client_ids import capacity_group, document_address
from fairlead_authorization.protocol.metadata import ASSERTION_ALGORITHMS
from fairlead_authorization.sessions.spent_assertions import MAX_ALIVE, SpentAssertions
from fairlead_gateway.identity.authorization_server import ANY_HOST
from fairlead_gateway.identity.jwt_authenticator import json_of, time_of

MAX_ASSERTION: Final = 8 << 10
"""Maximum number of characters of an assertion."""
MAX_SECONDS: Final = 600.0
"""Maximum number of seconds until `exp`, because used assertions have to be remembered until then."""
LEEWAY_SECONDS: Final = 30.0
MAX_OF_UNNAMED_CLIENTS: Final = 128
"""Maximum number of used assertions that a replica remembers for all clients that no setting names; they take about
40 kB."""
MAX_JTI: Final = 256


def claims_of(assertion: str) -> dict[str, Any]:
    """Unverified claims of an assertion; empty if it is unreadable."""
    parts = assertion.split(".")
    is_readable = len(parts) == 3 and len(assertion) <= MAX_ASSERTION
    return dict(json_of(parts[1]) or {}) if is_readable else {}


def verify_assertion(
    client: RegisteredClient, assertion: str, audiences: tuple[str, ...], now: float
) -> Mapping[str, Any] | None:
    """Claims of an unexpired assertion for this server, signed with one of the client's keys; None for any other
    assertion. `audiences` are the issuer and the URL of the endpoint; `now` is in seconds since the epoch.
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
    audience_claim = claims.get("aud")
    audience = (
        [audience_claim]
        if isinstance(audience_claim, str)
        else audience_claim
        if isinstance(audience_claim, list)
        else []
    )
    expires_at, valid_from = time_of(claims.get("exp")), time_of(claims.get("nbf", 0))
    if expires_at is None or valid_from is None:
        return None
    is_in_time = now - LEEWAY_SECONDS < expires_at < now + MAX_SECONDS and valid_from <= now + LEEWAY_SECONDS
    is_own = claims.get("iss") == claims.get("sub") == client.id
    is_for_us = len(audience) == 1 and audience[0] in audiences
    return claims if is_own and is_in_time and is_for_us else None


class UsedAssertions:
    """Ensures that each assertion is used only once, at any replica (RFC 7523 section 3, `jti`). `hosts` is the setting
    `clientHosts`.

    The number of remembered assertions is limited per group. Clients that anybody can create (by registration, or with
    the host `*`) share one group. Each configured client, and each host that the settings name, has its own group.
    """

    def __init__(self, spent_assertions: SpentAssertions, hosts: Collection[str]) -> None:
        self._spent_assertions = spent_assertions
        self._hosts = hosts

    async def take(self, client: RegisteredClient, claims: Mapping[str, Any]) -> bool:
        """Use the assertion with these verified claims; False if it has no `jti` or was used before. Raises
        SessionStoreUnavailable.
        """
        name, expires_at = claims.get("jti"), time_of(claims.get("exp"))
        if not isinstance(name, str) or not 0 < len(name) <= MAX_JTI or expires_at is None:
            return False
        group = self._capacity_group(client)
        limit = MAX_OF_UNNAMED_CLIENTS if group == ANY_HOST else MAX_ALIVE
        ends_at = expires_at + 2 * LEEWAY_SECONDS  # the assertion is then expired by the clock of every replica
        return await self._spent_assertions.spend(f"client {client.id}", name, ends_at, group=group, limit=limit)

    def _capacity_group(self, client: RegisteredClient) -> str:
        if client.kind == "document":
            return capacity_group(document_address(client.id), self._hosts)
        return ANY_HOST if client.kind == "registered" else f"client {client.id}"
