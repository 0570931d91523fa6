"""Content of a session id, apart from `calls.sessions` because a msgspec Struct is not compiled."""

from __future__ import annotations

import msgspec


class SessionClaims(
    msgspec.Struct,
    frozen=True,
    rename={"version": "v", "features": "f", "nonce": "n", "owner": "o"},
    omit_defaults=True,
):
    """Claims that a session id carries, signed; `nonce` makes each id unlike all others."""

    version: str
    nonce: str
    features: str | None = None
    owner: str = ""
