"""Data that a signed session id contains.

Separate from `calls.sealed.sessions`, because mypyc cannot compile msgspec Structs.
"""

from __future__ import annotations

import msgspec


class SignedSession(
    msgspec.Struct,
    frozen=True,
    rename={"version": "v", "features": "f", "nonce": "n", "owner": "o"},
    omit_defaults=True,
):
    """Members of a `core.session.LegacySession`, and a nonce that makes each id unique."""

    version: str
    nonce: str
    features: str | None = None
    """Normalized capabilities of the client as JSON, or None."""
    owner: str = ""
    """`Identity.owner` of the principal; empty for an anonymous client."""
