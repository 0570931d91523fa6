"""Claims that an ID token needs beside a right signature and times. Pure module (OpenID Connect Core 1.0)."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any


def id_token_fault(claims: Mapping[str, Any], client_id: str, nonce: str) -> str | None:
    """Why the claims are not those of a sign-in by `client_id` with `nonce` (section 3.1.3.7); None where they are."""
    audience = claims.get("aud")
    given = [audience] if isinstance(audience, str) else audience if isinstance(audience, list) else []
    party = claims.get("azp")
    if client_id not in given:
        return "the ID token is for another client"
    if party != client_id and (party is not None or len(given) > 1):
        return "the ID token was issued to another client"
    said = claims.get("nonce")
    if not isinstance(said, str) or not hmac.compare_digest(said.encode("utf-8", "replace"), nonce.encode()):
        return "the ID token belongs to another sign-in"
    subject = claims.get("sub")
    return None if isinstance(subject, str) and subject else "the ID token does not say whose it is"
