"""Refusals of servers that want each user to sign in, which a registry cannot do. Pure."""

from __future__ import annotations

from typing import Final

from fairlead_client.servers import ServerDeclaration
from fairlead_mcp.errors import HttpRefused, McpError
from fairlead_mcp.oauth.challenge import Challenge
from fairlead_mcp.oauth.errors import SIGN_IN_REQUIRED, GrantFailed

_ADVICE: Final = (
    "the server {name} wants each user to sign in, which a registry cannot do: let `fairlead up` run it, sign in with "
    "`fairlead login {name}`, and give the registry the gateway's URL; or set a token of yours in headers"
)


def sign_in_wanted(server: ServerDeclaration, error: McpError) -> GrantFailed | None:
    """The failure to raise in place of a refusal that offers a sign-in: 401 with the address of the server's metadata
    (RFC 9728 section 5.1), where the request had no credential that may be wrong. None for any other error.
    """
    if not isinstance(error, HttpRefused) or error.status != 401:
        return None
    challenge = Challenge.parse(error.challenge)
    has_credential = any(name.lower() == "authorization" for name in server.credential.headers)
    if has_credential or challenge is None or not challenge.resource_metadata:
        return None
    return GrantFailed(_ADVICE.format(name=server.name), cause=SIGN_IN_REQUIRED)
