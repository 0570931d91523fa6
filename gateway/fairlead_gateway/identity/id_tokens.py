"""Checks the claims of ID tokens whose signature and times are valid (OpenID Connect Core 1.0). Pure module."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping
from typing import Any

import msgspec


def id_token_fault(claims: Mapping[str, Any], client_id: str, nonce: str) -> str | None:
    """Why an ID token is not valid for a sign-in of `client_id` with `nonce` (section 3.1.3.7); None if it is valid."""
    audiences, party = _audiences(claims), claims.get("azp")
    if client_id not in audiences:
        return "the ID token is for another client"
    if party != client_id and (party is not None or len(audiences) > 1):
        return "the ID token was issued to another client"
    nonce_claim = claims.get("nonce")
    if not isinstance(nonce_claim, str) or not hmac.compare_digest(
        nonce_claim.encode("utf-8", "replace"), nonce.encode()
    ):
        return "the ID token belongs to another sign-in"
    subject = claims.get("sub")
    return None if isinstance(subject, str) and subject else "the ID token has no subject (claim sub)"


def serves_as_hint(token: str, client_id: str) -> bool:
    """Whether a token, which was verified earlier and may have expired, is an ID token of `client_id`. The provider
    uses it as `id_token_hint` to find the session to end (RP-Initiated Logout 1.0 section 2).
    """
    payload = token.split(".")[1:2]
    try:
        raw = base64.urlsafe_b64decode(f"{payload[0]}==") if payload else b""
        claims = msgspec.json.decode(raw, type=dict[str, Any])
    except (binascii.Error, ValueError, RecursionError):  # an opaque token or an API key
        return False
    return client_id in _audiences(claims) and isinstance(claims.get("nonce"), str)


def _audiences(claims: Mapping[str, Any]) -> list[Any]:
    audience = claims.get("aud")
    return [audience] if isinstance(audience, str) else audience if isinstance(audience, list) else []
