"""Compares the audience of a token with the accepted audiences. Pure module.

A trailing slash is ignored: MCP clients name the resource without a trailing slash, but many issuers and libraries add
one (MCP 2025-11-25, Authorization, "Canonical Server URI").
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec


class AcceptedAudiences(msgspec.Struct, frozen=True):
    """All audiences that a gateway accepts in tokens, whatever the issuer."""

    names: frozenset[str] = frozenset()
    address: str = ""
    """URL of the gateway, if tokens for it and for URLs below it are accepted (RFC 8707)."""

    def accepts(self, audience: str) -> bool:
        return is_among([audience], self.names) or (bool(self.address) and is_at(audience, self.address))


def is_at(audience: str, address: str) -> bool:
    """Whether an audience is an address or a URL below it."""
    base = address.rstrip("/")
    return audience.rstrip("/") == base or audience.startswith(base + "/")


def is_among(audiences: Iterable[Any], accepted: Collection[str]) -> bool:
    """Whether one of the token's audiences is accepted; a trailing slash of either is ignored."""
    names = {name.removesuffix("/") for name in accepted}
    return any(isinstance(audience, str) and audience.removesuffix("/") in names for audience in audiences)


def spellings(accepted: Iterable[str]) -> list[str]:
    """The accepted audiences, each URL both with and without a trailing slash. For verifiers that compare exactly, such
    as the API server.
    """
    return [
        *dict.fromkeys(
            spelling
            for name in accepted
            for spelling in ((name.removesuffix("/"), name.removesuffix("/") + "/") if "://" in name else (name,))
        )
    ]
