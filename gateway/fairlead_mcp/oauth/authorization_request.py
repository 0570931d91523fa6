"""Builds the URL that takes a user's browser to an authorization server, and reads the answer with which the browser
returns (RFC 6749 section 4.1, PKCE of RFC 7636, `iss` of RFC 9207). No I/O.
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
    """A new `state` or PKCE verifier: 256 random bits as 43 characters (RFC 7636 section 4.1)."""
    return secrets.token_urlsafe(_SECRET_BYTES)


def s256(verifier: str) -> str:
    """The code challenge of a verifier (RFC 7636 section 4.2)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest()).rstrip(b"=").decode("ascii")


def require_authorization_endpoint(metadata: AuthorizationServerMetadata) -> None:
    """Raise GrantFailed if users cannot sign in safely at an authorization server.

    Its authorization endpoint may be at another host than the issuer, because only browsers send requests to it.
    """
    endpoint = metadata.authorization_endpoint
    if not endpoint:
        raise GrantFailed(
            f"the metadata of the authorization server {metadata.issuer} names no authorization endpoint, so nobody "
            "can sign in there: set the server's authorizationURL and tokenURL",
            cause=DISCOVERY,
        )
    require_confidential(endpoint, "authorization endpoint")
    try:
        Target.from_url(endpoint)
    except InvalidTarget as error:
        raise GrantFailed(f"the authorization endpoint is invalid: {error}", cause=DISCOVERY) from error
    if not metadata.has_s256:
        raise GrantFailed(
            f"the authorization server {metadata.issuer} does not support PKCE with S256, without which somebody who "
            "intercepts the code of a sign-in could use it: enable it there (code_challenge_methods_supported)",
            cause=DISCOVERY,
        )


def request_url(endpoint: str, parameters: Mapping[str, str]) -> str:
    """Add parameters to the URL of an authorization endpoint. They replace parameters of the same name in the URL's
    query, because none may be sent twice (RFC 6749 section 3.1).
    """
    parts = urlsplit(endpoint)
    existing = parse_qsl(parts.query, keep_blank_values=True)
    others = [(name, value) for name, value in existing if name not in parameters]
    query = urlencode([*others, *parameters.items()])
    return urlunsplit((parts.scheme, parts.netloc, parts.path or "/", query, ""))


def read_code(answer: Mapping[str, str], *, state: str, issuer: str, sends_issuer: bool) -> str:
    """The authorization code in the parameters with which a browser returns.

    `sends_issuer`: whether the authorization server declares that its answers contain `iss`. If an answer contains it,
    it is compared in any case. Raises GrantFailed for the answer to another request or of another issuer, and for an
    error.
    """
    if not hmac.compare_digest(answer.get("state", "").encode(), state.encode()):
        message = "the answer does not belong to the sign-in that was started: sign in again"
        raise GrantFailed(message, cause=INVALID_REQUEST)
    answer_issuer = answer.get("iss")
    if answer_issuer is None and sends_issuer:
        raise GrantFailed(
            f"the answer does not name its issuer, as all answers of the authorization server {issuer} do: sign in "
            "again",
            cause=ISSUER_MISMATCH,
        )
    if answer_issuer is not None and answer_issuer != issuer:
        raise GrantFailed(
            f"the answer comes from the authorization server {_excerpt(answer_issuer)}, but the sign-in was started at "
            f"{issuer}, so the answer is not used; if both are the same, correct the server's issuer",
            cause=ISSUER_MISMATCH,
        )
    if "error" in answer:
        raise _refusal(answer, issuer)
    code = answer.get("code", "")
    if not code or len(code) > _MAX_CODE or not (code.isascii() and code.isprintable()):
        raise GrantFailed(f"the authorization server {issuer} sent no usable code: sign in again", cause=BAD_ANSWER)
    return code


def _refusal(answer: Mapping[str, str], issuer: str) -> GrantFailed:
    """The failure that an error answer describes (RFC 6749 section 4.1.2.1)."""
    error, description = answer["error"], answer.get("error_description", "")
    advice = advise(400, error, description, (), grant=USER_CONSENT)
    quote = f": “{_excerpt(description)}”" if description else ""
    return GrantFailed(
        f"the authorization server {issuer} refuses the sign-in ({_excerpt(error)[:_SHOWN_ERROR]}{quote}): "
        f"{advice.sentence}",
        cause=advice.cause,
    )


def _excerpt(text: str) -> str:
    return jsonrpc.excerpt(text.encode("utf-8", "replace"))
