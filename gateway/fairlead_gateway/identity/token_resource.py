"""Resource of a token: the path of the gateway at and below which alone it is valid (RFC 8707). Pure module."""

from __future__ import annotations

import re
from typing import Final

from fairlead_gateway.core.identity import Identity
from fairlead_gateway.identity.audiences import is_at
from fairlead_gateway.identity.refusal import CredentialRefusal

PLAIN_PATH: Final = re.compile(r"(/[A-Za-z0-9._~!$&'()*+,;=:@-]+)*")
"""Path of a resource that a token may be for: without percent-encoding, which proxies and servers read in more than one
way.
"""
_NO_NAMES: Final = frozenset({"", ".", ".."})
"""Segments by which another reader of the same path might find another resource (RFC 3986 section 5.2.4)."""


def refuse_elsewhere(identity: Identity, path: str) -> CredentialRefusal | None:
    """Rejection of a request for a path at which the identity's credential is not valid; None if it is valid there."""
    if not identity.resource or path == identity.resource:
        return None
    segments = path.removesuffix("/").split("/")[1:]
    if is_at(path, identity.resource) and _NO_NAMES.isdisjoint(segments):
        return None
    message = f"the token is for {identity.resource} of this gateway and what is below it: get a token for this path"
    return CredentialRefusal(401, message, "invalid_token")
