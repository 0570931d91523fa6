"""Session of a legacy client, as its signed id carries it; `calls.sessions` signs and reads ids."""

from __future__ import annotations

import msgspec


class SessionClaims(
    msgspec.Struct,
    frozen=True,
    rename={"version": "v", "features": "f", "nonce": "n", "owner": "o"},
    omit_defaults=True,
):
    """Session that a client opened by `initialize`. `features` are the client's normalized capabilities, None where it
    has none; `owner` is `Identity.owner` of the client.
    """

    version: str
    nonce: str
    features: str | None = None
    owner: str = ""
