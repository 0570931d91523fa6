"""Session as its id carries it, apart from `calls.sealed.sessions` because a msgspec Struct is not compiled."""

from __future__ import annotations

import msgspec


class SignedSession(
    msgspec.Struct,
    frozen=True,
    rename={"version": "v", "features": "f", "nonce": "n", "owner": "o"},
    omit_defaults=True,
):
    """Members of a `core.session.LegacySession`, and a nonce that makes each id unlike all others."""

    version: str
    nonce: str
    features: str | None = None
    """Normalized capabilities of the client, as JSON; None for none."""
    owner: str = ""
