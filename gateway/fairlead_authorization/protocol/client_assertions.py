"""Assertions with which clients authenticate (`private_key_jwt`, RFC 7523 section 3). No I/O."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry

from fairlead_authorization.clients.client import RegisteredClient
from fairlead_authorization.protocol.metadata import ASSERTION_ALGORITHMS
from fairlead_gateway.identity.jwt_authenticator import json_of, time_of

MAX_ASSERTION: Final = 8 << 10
"""Characters."""
MAX_SECONDS: Final = 600.0
"""Most seconds until `exp`: used assertions are remembered as long."""
LEEWAY_SECONDS: Final = 30.0
MAX_USED: Final = 4_096
"""Limit on the remembered assertions; beyond it, the oldest is forgotten."""
MAX_JTI: Final = 256


def claims_of(assertion: str) -> dict[str, Any]:
    """Claims of an assertion, of which nothing is verified; empty if it is unreadable."""
    parts = assertion.split(".")
    readable = len(parts) == 3 and len(assertion) <= MAX_ASSERTION
    return dict(json_of(parts[1]) or {}) if readable else {}


def is_signed_by(client: RegisteredClient, assertion: str, audiences: tuple[str, ...], now: float) -> bool:
    """Whether one of the client's keys has signed the assertion for this server, and it has not expired. `audiences`
    are the issuer and the URL of the endpoint; `now` is in seconds since the epoch.
    """
    if not client.keys or len(assertion) > MAX_ASSERTION:
        return False
    registry = JWSRegistry(strict_check_header=False)
    registry.max_header_length = registry.max_payload_length = MAX_ASSERTION
    try:
        keys = KeySet.import_key_set({"keys": [dict(key) for key in client.keys]})
        claims = jwt.decode(assertion, keys, algorithms=list(ASSERTION_ALGORITHMS), registry=registry).claims
    except (JoseError, ValueError, TypeError, RecursionError):
        return False
    named = claims.get("aud")
    audience = [named] if isinstance(named, str) else named if isinstance(named, list) else []
    ends, begins = time_of(claims.get("exp")), time_of(claims.get("nbf", 0))
    if ends is None or begins is None:
        return False
    in_time = now - LEEWAY_SECONDS < ends < now + MAX_SECONDS and begins <= now + LEEWAY_SECONDS
    is_own = claims.get("iss") == claims.get("sub") == client.id
    return is_own and in_time and len(audience) == 1 and audience[0] in audiences


class UsedAssertions:
    """Assertions that this replica has taken: each is good once (RFC 7523 section 3, `jti`).

    In memory, unlike `SpentAssertions`: with `clientHosts: ["*"]` anybody is a client, and would fill the store. The
    code or refresh token beside an assertion is good once at all replicas.
    """

    def __init__(self) -> None:
        self._used: OrderedDict[tuple[str, str], float] = OrderedDict()

    def take(self, assertion: str, now: float) -> bool:
        """Take an assertion whose signature is valid; False if it has no `jti` or was taken before."""
        claims = claims_of(assertion)
        name, client = claims.get("jti"), claims.get("sub")
        if not isinstance(name, str) or not 0 < len(name) <= MAX_JTI or not isinstance(client, str):
            return False
        while self._used and next(iter(self._used.values())) <= now:
            self._used.popitem(last=False)
        if (client, name) in self._used:
            return False
        self._used[client, name] = now + MAX_SECONDS + LEEWAY_SECONDS
        if len(self._used) > MAX_USED:
            self._used.popitem(last=False)
        return True
