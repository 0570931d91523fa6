"""Refuses exchanged tokens with which a server could call the gateway as the caller. No I/O.

A server receives the token of each call. If an authorization server is asked for no audience, or for the gateway's
audience, it may issue a token that the gateway accepts too.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any, Final

import msgspec

from fairlead_mcp import jsonrpc
from fairlead_mcp.oauth.errors import BAD_ANSWER, GrantFailed

_ADVICE: Final = "set the server's audience, resource or scopes, so that the token is only for this server"


class _AudienceClaim(msgspec.Struct, frozen=True):
    """Claim `aud` of a JWT (RFC 7519 section 4.1.3)."""

    aud: Any = None


_read_claims: Final = msgspec.json.Decoder(_AudienceClaim).decode


def require_token_of_server(
    token: str, subject_token: str, endpoint: str, is_own_audience: Callable[[str], bool]
) -> None:
    """Raise GrantFailed if the gateway would accept `token`, which was issued in exchange for `subject_token`.

    The gateway would accept the subject token itself, and any JWT with an audience of the gateway among those in its
    `aud`. Signature and issuer do not matter here. `endpoint` is the token endpoint's host, for messages.
    """
    if token == subject_token:
        raise GrantFailed(
            f"the token endpoint {endpoint} returned the caller's own token, which servers must not get: {_ADVICE}",
            cause=BAD_ANSWER,
        )
    if any(is_own_audience(audience) for audience in _audiences(token)):
        raise GrantFailed(
            f"the token endpoint {endpoint} issued a token whose audience (aud) is this gateway, with which the server "
            f"could call the gateway as the caller: {_ADVICE}",
            cause=BAD_ANSWER,
        )


def _audiences(token: str) -> list[str]:
    """Audiences of an unverified JWT; empty for any other token, because the gateway accepts only JWTs."""
    parts = token.split(".")
    if len(parts) != 3:
        return []
    try:
        claims = _read_claims(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, *jsonrpc.UNREADABLE):
        return []
    audiences = claims.aud if isinstance(claims.aud, list) else [claims.aud]
    return [audience for audience in audiences if isinstance(audience, str)]
