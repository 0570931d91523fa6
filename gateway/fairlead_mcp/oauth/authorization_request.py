"""URL that takes a person's browser to an authorization server, and the answer with which it comes back (RFC 6749
section 4.1, PKCE of RFC 7636, `iss` of RFC 9207). No I/O.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from fairlead_api.documents.oauth import USER_CONSENT
from fairlead_mcp import jsonrpc
from fairlead_mcp.http.target import InvalidTarget, Target
from fairlead_mcp.oauth.errors import BAD_ANSWER, DISCOVERY, INVALID_REQUEST, ISSUER_MISMATCH, GrantFailed
from fairlead_mcp.oauth.metadata import AuthorizationServerMetadata, require_confidential
from fairlead_mcp.oauth.refusal_advice import advise

_SECRET_BYTES: Final = 32
_MAX_CODE: Final = 4_096
_SHOWN_ERROR: Final = 64


def new_secret() -> str:
    """Make a `state` or PKCE verifier: 256 random bits as 43 characters of RFC 7636 section 4.1."""
    return secrets.token_urlsafe(_SECRET_BYTES)


def s256(verifier: str) -> str:
    """The code challenge of a verifier (RFC 7636 section 4.2)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest()).rstrip(b"=").decode("ascii")


def require_authorization_endpoint(metadata: AuthorizationServerMetadata) -> None:
    """Raise GrantFailed if users cannot sign in safely at an authorization server.

    Its authorization endpoint may be at another host than the issuer: only a browser goes there.
    """
    endpoint = metadata.authorization_endpoint
    if not endpoint:
        raise GrantFailed(
            f"the authorization server {metadata.issuer} names no authorization endpoint, so nobody can sign in there: "
            "set authorizationURL and tokenURL of the server",
            cause=DISCOVERY,
        )
    require_confidential(endpoint, "authorization endpoint")
    try:
        Target.from_url(endpoint)
    except InvalidTarget as error:
        raise GrantFailed(f"the authorization endpoint is invalid: {error}", cause=DISCOVERY) from error
    if not metadata.has_s256:
        raise GrantFailed(
            f"the authorization server {metadata.issuer} does not take PKCE with S256, without which others could use "
            "a sign-in that they see: it has to be turned on there (code_challenge_methods_supported)",
            cause=DISCOVERY,
        )


def request_url(endpoint: str, parameters: Mapping[str, str]) -> str:
    """Add parameters to the URL of an authorization endpoint, which may have a query of its own. They replace those of
    the same name in it, as none may be sent twice (RFC 6749 section 3.1).
    """
    parts = urlsplit(endpoint)
    own = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in parameters]
    query = urlencode([*own, *parameters.items()])
    return urlunsplit((parts.scheme, parts.netloc, parts.path or "/", query, ""))


def read_code(answer: Mapping[str, str], *, state: str, issuer: str, sends_issuer: bool) -> str:
    """The authorization code in the parameters with which a browser comes back.

    `sends_issuer`: whether the authorization server says that its answers have `iss`, which is compared wherever it is.
    Raises GrantFailed for the answer to another request or of another issuer, and for an error.
    """
    if not hmac.compare_digest(answer.get("state", "").encode(), state.encode()):
        raise GrantFailed("this is not the answer to the sign-in that was begun: sign in again", cause=INVALID_REQUEST)
    named = answer.get("iss")
    if named is None and sends_issuer:
        raise GrantFailed(
            f"the answer does not say that it is of {issuer}, as this authorization server's answers do: sign in again",
            cause=ISSUER_MISMATCH,
        )
    if named is not None and named != issuer:
        raise GrantFailed(
            f"the answer is of the authorization server {_excerpt(named)}, but the sign-in was begun at {issuer}: it "
            "is not used; if both are the same, correct issuer of the server",
            cause=ISSUER_MISMATCH,
        )
    if "error" in answer:
        raise _refusal(answer, issuer)
    code = answer.get("code", "")
    if not code or len(code) > _MAX_CODE or not (code.isascii() and code.isprintable()):
        raise GrantFailed(f"the authorization server {issuer} sent no usable code: sign in again", cause=BAD_ANSWER)
    return code


def _refusal(answer: Mapping[str, str], issuer: str) -> GrantFailed:
    """Make the failure for an error (RFC 6749 section 4.1.2.1)."""
    error, description = answer["error"], answer.get("error_description", "")
    advice = advise(400, error, description, (), grant=USER_CONSENT)
    words = f": “{_excerpt(description)}”" if description else ""
    return GrantFailed(
        f"the authorization server {issuer} refuses the sign-in ({_excerpt(error)[:_SHOWN_ERROR]}{words}): "
        f"{advice.sentence}",
        cause=advice.cause,
    )


def _excerpt(text: str) -> str:
    return jsonrpc.excerpt(text.encode("utf-8", "replace"))
