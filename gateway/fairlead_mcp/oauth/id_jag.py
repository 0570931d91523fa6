"""Refuses what an identity provider sends in place of an assertion (ID-JAG). No I/O.

An access token of the provider that went on to a foreign authorization server would let it act as the person.
"""

from __future__ import annotations

import base64
from typing import Any, Final

import msgspec

from fairlead_mcp import jsonrpc
from fairlead_mcp.oauth.errors import BAD_ANSWER, GrantFailed

TYPES: Final = frozenset({"oauth-id-jag+jwt", "application/oauth-id-jag+jwt"})


class _AssertionHeader(msgspec.Struct, frozen=True):
    typ: str = ""


class _AssertionClaims(msgspec.Struct, frozen=True):
    aud: Any = None
    client_id: Any = None


_header: Final = msgspec.json.Decoder(_AssertionHeader).decode
_claims: Final = msgspec.json.Decoder(_AssertionClaims).decode


def require_assertion(token: str, issuer: str, client_id: str) -> None:
    """Raise GrantFailed unless an unverified JWT is an assertion for this authorization server and client alone."""
    parts = token.split(".")
    try:
        header, claims = _header(_decoded(parts[0])), _claims(_decoded(parts[1]))
    except (IndexError, ValueError, *jsonrpc.UNREADABLE):
        header, claims = _AssertionHeader(), _AssertionClaims()
    if header.typ.lower() not in TYPES:
        what = "is not an assertion (typ oauth-id-jag+jwt)"
    elif claims.aud not in (issuer, [issuer]):
        what = f"is not for {issuer} alone (aud)"
    elif claims.client_id != client_id:
        what = "is for another client (client_id): map this client to resourceClient.clientID at the provider"
    else:
        return
    raise GrantFailed(f"what the identity provider sent {what}; it was sent nowhere", cause=BAD_ANSWER)


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
