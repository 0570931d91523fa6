"""Reads the answers of token endpoints (RFC 6749 section 5, RFC 8693 section 2.2). No I/O.

Answers are untrusted: type and length of each member are checked, and any other answer raises GrantFailed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple
from urllib.parse import quote_plus

import msgspec

from fairlead_api.documents.oauth import CLIENT_CREDENTIALS, TOKEN_EXCHANGE
from fairlead_mcp import jsonrpc
from fairlead_mcp.masking import PLACEHOLDER, Mask
from fairlead_mcp.oauth.access_token import AccessToken
from fairlead_mcp.oauth.errors import BAD_ANSWER, SUBJECT_TOKEN_EXPIRED, GrantFailed
from fairlead_mcp.oauth.grants import ACCESS_TOKEN_TYPE, ID_JAG_TYPE, JWT_TYPE
from fairlead_mcp.oauth.refusal_advice import ASSERTION_STEP, REDEMPTION_STEP, RefusalAdvice, advise
from fairlead_mcp.oauth.scopes import bounded_scopes, split_scopes

DEFAULT_LIFETIME: Final = 300.0
"""Seconds for which a token without `expires_in` is used."""
MAX_LIFETIME: Final = 86_400.0
"""Maximum seconds for which a token is used, even if its `expires_in` is longer."""
MAX_TOKEN_CHARACTERS: Final = 16 << 10
MAX_CLAIMS_CHARACTERS: Final = 4 << 10
_MAX_ERROR: Final = 64
_VALUE: Final = re.compile(r"[\x21-\x7e]+")
"""Token that is valid in a header. RFC 6750 section 2.1 allows fewer characters, but some real tokens use more."""
_PRINTABLE: Final = re.compile(r"[\x20-\x7e]+")
"""Valid refresh token (RFC 6749 appendix A.17)."""
_MAX_REFRESH_SECONDS: Final = 1e10
_SECONDS: Final = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,6})?")
_MAX_QUOTED: Final = 1 << 10
"""Maximum characters of a quoted text in which tokens are searched and masked."""
_JWT: Final = re.compile(r"(?<![A-Za-z0-9_-])[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]{10,}+(?:\.[A-Za-z0-9_-]*+)*+")
"""A JWT. Matches only at the beginning of a word and never backtracks, so that its time is linear in the text."""
_MIN_PART: Final = 16
"""Minimum characters of a part of a token that is masked separately."""


class _TokenMembers(msgspec.Struct, frozen=True):
    """Members of an answer that contains a token or an error."""

    access_token: str | None = None
    token_type: str | None = None
    issued_token_type: str | None = None
    expires_in: int | float | str | None = None
    scope: str | list[str] | None = None
    refresh_token: Any = None
    refresh_token_expires_in: Any = None
    refresh_expires_in: Any = None
    """Keycloak's name for `refresh_token_expires_in`; RFC 6749 defines neither."""
    id_token: Any = None
    error: Any = None


class _ErrorMembers(msgspec.Struct, frozen=True):
    """Members of an error answer. Members of a wrong type are ignored."""

    error: Any = None
    error_description: Any = None
    error_codes: Any = None
    claims: Any = None


_read_token: Final = msgspec.json.Decoder(_TokenMembers).decode
_read_error: Final = msgspec.json.Decoder(_ErrorMembers).decode


class TokenRequest(NamedTuple):
    """Properties of a token request that are needed to read its answer."""

    endpoint: str
    """Host and port of the token endpoint, for messages."""
    scopes: tuple[str, ...]
    subject_expires_at: float
    """`exp` of the subject token; infinite if there is none."""
    mask: Mask
    """Masks all secrets of the request."""
    authentication_methods: tuple[str, ...] = ()
    """Client authentication methods in the issuer's metadata."""
    grant: str = TOKEN_EXCHANGE
    """The grant of the settings. With the profile IdJag, ASSERTION_STEP (an assertion is expected instead of an access
    token) or REDEMPTION_STEP.
    """


class IssuedToken(NamedTuple):
    """Tokens in the answer of a token endpoint."""

    access: AccessToken
    refresh_token: str = ""
    """Empty if there is no usable one."""
    refresh_expires_at: float = 0.0
    """Expiry of the refresh token, in seconds since the epoch; 0: unknown."""
    id_token: str = ""
    """Unverified ID token (OpenID Connect Core 1.0 section 3.1.3.3); empty if there is none."""


def secret_mask(secrets: Iterable[str]) -> Mask:
    """A mask for secrets and tokens: as a whole, form-encoded, and each long part of a JWT."""
    values: list[str] = []
    for secret in secrets:
        parts = [part for part in secret.split(".") if len(part) >= _MIN_PART]
        values += [secret, quote_plus(secret), *parts]
    return Mask.of_values(values)


def read_token(status: int, body: bytes, request: TokenRequest, now: float) -> IssuedToken:
    """The tokens in an answer that was received at `now`, in seconds since the epoch. Raises GrantFailed.

    `expires_in` is relative, so a difference between the clocks of both sides does not matter.
    """
    try:
        members = _read_token(body) if 200 <= status < 300 else None
    except jsonrpc.UNREADABLE as error:
        raise _invalid_answer(request, "did not send a JSON object with a token") from error
    if members is None or members.error is not None:  # some servers send errors with status 200
        raise _refusal(status, body, request)
    value = members.access_token or ""
    if not value or len(value) > MAX_TOKEN_CHARACTERS or _VALUE.fullmatch(value) is None:
        raise _invalid_answer(request, "sent no usable access_token")
    _check_kind(members, request)
    expires_at = min(now + _lifetime(members.expires_in, request), request.subject_expires_at)
    if expires_at <= now:
        raise GrantFailed("your token has expired: sign in again", cause=SUBJECT_TOKEN_EXPIRED)
    access = AccessToken.bearer(value, expires_at, _granted_scopes(members.scope, request))
    refresh_token, id_token = _text(members.refresh_token), _text(members.id_token)
    return IssuedToken(access, refresh_token, _refresh_end(members, now), id_token)


def _check_kind(members: _TokenMembers, request: TokenRequest) -> None:
    """Raise GrantFailed if the answer contains another kind of token than requested."""
    if request.grant == ASSERTION_STEP:
        if members.issued_token_type != ID_JAG_TYPE:
            kind = _quote(members.issued_token_type or "none", request)
            fact = f"sent a token of the issued_token_type {kind} instead of an assertion (id-jag)"
            raise _invalid_answer(request, fact)
        return
    if members.token_type is not None and members.token_type.lower() != "bearer":
        kind = _quote(members.token_type, request)
        raise _invalid_answer(request, f"sent a token of the token_type {kind} instead of Bearer")
    if members.issued_token_type not in (None, "", ACCESS_TOKEN_TYPE, JWT_TYPE):
        kind = _quote(members.issued_token_type or "", request)
        raise _invalid_answer(request, f"sent a token of the issued_token_type {kind} instead of an access token")


def _text(value: object) -> str:
    """The token in an optional member; empty if it is missing or unusable."""
    is_usable = isinstance(value, str) and len(value) <= MAX_TOKEN_CHARACTERS and _PRINTABLE.fullmatch(value)
    return value if isinstance(value, str) and is_usable else ""


def _refresh_end(members: _TokenMembers, now: float) -> float:
    """Expiry of the refresh token; 0 if it is unknown, which Keycloak also states as 0."""
    for seconds in (members.refresh_token_expires_in, members.refresh_expires_in):
        if isinstance(seconds, int | float) and 0 < seconds <= _MAX_REFRESH_SECONDS:
            return now + seconds
    return 0.0


def _granted_scopes(scope: str | list[str] | None, request: TokenRequest) -> frozenset[str]:
    """Scopes of a token (RFC 6749 section 5.1). Some authorization servers send a list."""
    if scope is None:
        return frozenset(request.scopes)
    return frozenset(split_scopes(scope) if isinstance(scope, str) else bounded_scopes(scope))


def _lifetime(expires_in: float | str | None, request: TokenRequest) -> float:
    """Seconds for which a token is valid, at most MAX_LIFETIME."""
    if expires_in is None:
        return DEFAULT_LIFETIME
    if isinstance(expires_in, str):
        seconds = float(expires_in) if _SECONDS.fullmatch(expires_in) else math.nan
    else:
        seconds = min(expires_in, MAX_LIFETIME)  # limited first, because a huge integer cannot be converted
    if not seconds > 0:  # also true for NaN
        raise _invalid_answer(request, "sent a token whose expires_in is not a positive number of seconds")
    return min(seconds, MAX_LIFETIME)


def _refusal(status: int, body: bytes, request: TokenRequest) -> GrantFailed:
    try:
        members = _read_error(body)
    except jsonrpc.UNREADABLE:
        members = _ErrorMembers()
    code = members.error if isinstance(members.error, str) else ""
    description = members.error_description if isinstance(members.error_description, str) else ""
    codes = members.error_codes if isinstance(members.error_codes, list) else []
    advice = advise(status, code, description, codes, grant=request.grant)
    quote = f": “{_quote(description, request)}”" if description else ""
    problem = _quote(code, request)[:_MAX_ERROR] or f"status {status}"
    hint = advice.sentence
    if advice.about_client and request.authentication_methods:
        methods = ", ".join(bounded_scopes(request.authentication_methods))
        hint = f"{hint}; the issuer supports the methods {_quote(methods, request)}"
    fact = f"the token endpoint {request.endpoint} gave no token"
    return GrantFailed(
        f"{fact} ({problem}{quote}): {hint}",
        cause=advice.cause,
        claims=_claims(members.claims, advice, request),
        impersonal=f"{fact} ({problem}): {hint}" if request.grant != CLIENT_CREDENTIALS else "",
    )


def _claims(claims: Any, advice: RefusalAdvice, request: TokenRequest) -> str:
    """The claims that Entra requires in the next authorization request, on one line; empty if they are not a JSON
    object.
    """
    if not advice.interaction or not isinstance(claims, str) or len(claims) > MAX_CLAIMS_CHARACTERS:
        return ""
    try:
        is_object = isinstance(msgspec.json.decode(claims), dict)
    except jsonrpc.UNREADABLE:
        return ""
    line = msgspec.json.format(claims, indent=-1)
    return line if is_object and line.isprintable() and request.mask.text(line) == line else ""


def _quote(text: str, request: TokenRequest) -> str:
    """Beginning of an untrusted text without secrets, on one line."""
    masked = request.mask.text(text)[:_MAX_QUOTED]  # masked before it is cut: a part of a secret is not recognized
    return jsonrpc.excerpt(_JWT.sub(PLACEHOLDER, masked).encode("utf-8", "replace"))


def _invalid_answer(request: TokenRequest, fact: str) -> GrantFailed:
    setting = "resourceClient.issuer" if request.grant == REDEMPTION_STEP else "tokenURL"
    message = f"the token endpoint {request.endpoint} {fact}: check {setting} and the authorization server"
    return GrantFailed(message, cause=BAD_ANSWER)
