"""Checks that a token from an identity provider is an assertion (ID-JAG) before it is redeemed. No I/O.

If it were an access token of the provider, the authorization server that redeems it could act as the user.
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


_decode_header: Final = msgspec.json.Decoder(_AssertionHeader).decode
_decode_claims: Final = msgspec.json.Decoder(_AssertionClaims).decode


def require_assertion(token: str, issuer: str, client_id: str) -> None:
    """Raise GrantFailed unless an unverified JWT is an assertion only for this authorization server and client."""
    parts = token.split(".")
    try:
        header, claims = _decode_header(_decode_part(parts[0])), _decode_claims(_decode_part(parts[1]))
    except (IndexError, ValueError, *jsonrpc.UNREADABLE):
        header, claims = _AssertionHeader(), _AssertionClaims()
    if header.typ.lower() not in TYPES:
        problem = "is not an assertion (typ oauth-id-jag+jwt)"
    elif claims.aud not in (issuer, [issuer]):
        problem = f"is not only for {issuer} (aud)"
    elif claims.client_id != client_id:
        problem = "is for another client (client_id): map this client to resourceClient.clientID at the provider"
    else:
        return
    raise GrantFailed(f"the token from the identity provider is not used, because it {problem}", cause=BAD_ANSWER)


def _decode_part(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
