"""Authenticates JWTs of configured issuers.

The issuer is looked up by `iss` and the key by `kid` among the keys of that issuer; the algorithm must be one that is
configured for the issuer. Everything else in the token's header is ignored (RFC 8725). After the signature, the expiry,
`nbf`, issuer, audience (RFC 8707) and required scopes are checked.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import Key as SigningKey
from joserfc.jws import JWSRegistry

from fairlead_api.policies.subjects import claim
from fairlead_gateway.core.identity import Kind
from fairlead_gateway.identity.audiences import is_among, is_at
from fairlead_gateway.identity.authenticator import Revoke, Verdict
from fairlead_gateway.identity.issuers_file import Issuer
from fairlead_gateway.identity.jwks import IssuerKeys
from fairlead_gateway.identity.names import Issuers
from fairlead_gateway.identity.refusal import UNAVAILABLE, CredentialRefusal
from fairlead_gateway.identity.token_identity import scope_refusal, token_identity, words_of

MAX_TOKEN: Final = 8 << 10
"""Characters; longer tokens are rejected without decoding."""
_TYPES: Final = frozenset({"jwt", "at+jwt", "application/at+jwt"})
"""`typ` of an access token or a plain JWT, in lower case."""


_SignedToken = tuple[Mapping[str, Any], Issuer, str]
"""Claims of a token, its issuer, and the name of its signing key, by which it can be revoked."""


def invalid_token(message: str) -> CredentialRefusal:
    """Rejection of a token with status 401 and `error="invalid_token"` (RFC 6750)."""
    return CredentialRefusal(401, message, "invalid_token")


UNREADABLE: Final = invalid_token("the token is not a valid JWT")
UNKNOWN_SIGNER: Final = invalid_token("the token is signed with a key that its issuer does not publish")
BAD_SIGNATURE: Final = invalid_token("the signature of the token is invalid")
EXPIRED: Final = invalid_token("the token has expired")
NOT_YET: Final = invalid_token("the token is not valid yet")
OTHER_AUDIENCE: Final = invalid_token("the token is for another audience (claim aud)")
OTHER_ISSUER: Final = invalid_token("the token is from another issuer (claim iss)")
NOBODY: Final = invalid_token("the token has no subject: its claim sub is missing or empty")


class Tokens:
    """`Authenticator` of JWTs. `address` is the URL of this gateway, `now` returns seconds since the epoch, `clock` is
    any monotonic clock. `issuer_names` are all issuers that policies may name.
    """

    kind: Kind = "jwt"
    cache_seconds = float("inf")

    def __init__(
        self,
        issuers: Sequence[Issuer],
        *,
        address: str,
        scopes: Sequence[str] = (),
        issuer_names: Issuers | None = None,
        now: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        self._keys = {
            issuer.issuer: IssuerKeys(issuer, clock, partial(self._revoke_withdrawn_keys, issuer.issuer))
            for issuer in issuers
        }
        self._address = address.rstrip("/")
        self._scopes = tuple(scopes)
        self._issuer_names = issuer_names or Issuers(tokens=tuple(issuer.names for issuer in issuers))
        self._now = now
        self._registry = JWSRegistry(strict_check_header=False)
        self._registry.max_header_length = self._registry.max_payload_length = MAX_TOKEN
        self._revoke: Revoke | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def recognizes(self, token: str) -> bool:
        return len(token) > MAX_TOKEN or self._find_issuer(token) is not None

    def check(self, token: str) -> Verdict | None:
        signed_token = self._read_signed(token)
        return (
            signed_token
            if signed_token is None or isinstance(signed_token, CredentialRefusal)
            else self._check_claims(*signed_token)
        )

    async def look_up(self, token: str) -> Verdict:
        """Check a token whose key is unknown, after the keys of its issuer were fetched again."""
        issuer = self._find_issuer(token)
        if issuer is None:
            return UNREADABLE
        keys_are_known = await issuer[1].refetch()
        return self.check(token) or (UNKNOWN_SIGNER if keys_are_known else UNAVAILABLE)

    async def verify(
        self, token: str, issuer: str, types: Collection[str] = _TYPES
    ) -> Mapping[str, Any] | CredentialRefusal:
        """Claims of an unexpired token that `issuer` signed, whose `typ` in lower case is among `types`. The caller has
        to check the audience and all other claims.
        """
        signed_token = self._read_signed(token, types)
        if signed_token is None and (issuer_keys := self._find_issuer(token)) is not None:
            keys_are_known = await issuer_keys[1].refetch()
            signed_token = self._read_signed(token, types) or (UNKNOWN_SIGNER if keys_are_known else UNAVAILABLE)
        if signed_token is None or isinstance(signed_token, CredentialRefusal):
            return signed_token or UNREADABLE
        claims, signing_issuer, _ = signed_token
        expires_at = self._expiry(claims, signing_issuer)
        if isinstance(expires_at, CredentialRefusal):
            return expires_at
        return claims if signing_issuer.issuer == issuer else OTHER_ISSUER

    async def start(self, revoke: Revoke) -> None:
        self._revoke = revoke
        for name, keys in self._keys.items():
            work = keys.keep_fresh()
            self._tasks.append(asyncio.get_running_loop().create_task(work, name=f"keys of {name}"))

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _revoke_withdrawn_keys(self, issuer: str, kids: set[str]) -> None:
        """Revoke the identities of tokens signed with keys that the issuer no longer publishes."""
        credentials = {f"{issuer} {kid}" for kid in kids} | {f"{issuer} "}  # the last is for tokens without a `kid`
        if self._revoke is not None:
            self._revoke(lambda identity: identity.kind == "jwt" and identity.credential in credentials)

    def _find_issuer(self, token: str) -> tuple[Mapping[str, Any], IssuerKeys] | None:
        """Header of a token, and the keys of the issuer that the token names. The token is not verified yet."""
        parts = token.split(".")
        if len(parts) != 3 or len(token) > MAX_TOKEN:
            return None
        header, claims = (json_of(part) for part in parts[:2])
        if header is None or claims is None:
            return None
        issuer = claims.get("iss")
        keys = self._keys.get(issuer) if isinstance(issuer, str) else None
        return None if keys is None else (header, keys)

    def _read_signed(self, token: str, types: Collection[str] = _TYPES) -> _SignedToken | CredentialRefusal | None:
        """Claims of a token with a valid signature; None if its key is unknown."""
        issuer = None if len(token) > MAX_TOKEN else self._find_issuer(token)
        if issuer is None:
            return UNREADABLE
        header, keys = issuer
        if not self._allows(header, keys.issuer, types):
            return invalid_token("the gateway does not accept the typ or alg in the header of this token")
        if not isinstance(header.get("kid", ""), str):
            return UNREADABLE
        key = self._key(header, keys)
        if key is None:
            return None
        claims = self._decode_claims(token, key, str(header["alg"]))
        if claims is None:
            return BAD_SIGNATURE
        return claims, keys.issuer, f"{keys.issuer.issuer} {header.get('kid', '')}"

    def _allows(self, header: Mapping[str, Any], issuer: Issuer, types: Collection[str]) -> bool:
        """Whether the issuer may use the header's `alg`, and its `typ` is among `types`."""
        return header.get("alg") in issuer.algorithms and str(header.get("typ", "JWT")).lower() in types

    def _key(self, header: Mapping[str, Any], keys: IssuerKeys) -> SigningKey | None:
        """The issuer's key with the header's `kid`. Keys and key URLs in the header (`jwk`, `jku`) are ignored."""
        return keys.find(header.get("kid"))

    def _decode_claims(self, token: str, key: SigningKey, algorithm: str) -> Mapping[str, Any] | None:
        """The claims of a token; None if the signature does not match the key."""
        try:
            return jwt.decode(token, key, algorithms=[algorithm], registry=self._registry).claims
        except (JoseError, ValueError, TypeError, RecursionError):
            return None

    def _check_claims(self, claims: Mapping[str, Any], issuer: Issuer, credential: str) -> Verdict:
        """Check the claims of a token whose signature is valid."""
        expires_at = self._expiry(claims, issuer)
        if isinstance(expires_at, CredentialRefusal):
            return expires_at
        if claims.get("iss") != issuer.issuer or not self._is_for_us(claims.get("aud"), issuer):
            return OTHER_AUDIENCE
        subject = claims.get("sub")
        if not isinstance(subject, str) or not subject:
            return NOBODY
        agent = next((value for name in issuer.agent_claims if (value := _text(claim(claims, name)))), None)
        scopes = frozenset(words_of(claims.get("scope", claims.get("scp"))))
        return scope_refusal(scopes, self._scopes) or token_identity(
            claims,
            issuer,
            self._issuer_names,
            agent=agent,
            scopes=scopes,
            credential=credential,
            expires_at=expires_at,
        )

    def _expiry(self, claims: Mapping[str, Any], issuer: Issuer) -> float | CredentialRefusal:
        """Expiry of a token that is valid now, in seconds since the epoch, including the leeway."""
        now, leeway = self._now(), issuer.leeway_seconds
        expires_at, valid_from, issued_at = (time_of(claims.get(name)) for name in ("exp", "nbf", "iat"))
        if expires_at is None or (valid_from is None and "nbf" in claims) or (issued_at is None and "iat" in claims):
            return UNREADABLE
        if expires_at + leeway <= now:
            return EXPIRED
        if max(valid_from or 0, issued_at or 0) - leeway > now:
            return NOT_YET
        return expires_at + leeway

    def _is_for_us(self, audience: Any, issuer: Issuer) -> bool:
        audiences = [audience] if isinstance(audience, str) else audience
        if not isinstance(audiences, list):
            return False
        if issuer.audiences:
            return is_among(audiences, issuer.audiences)
        return any(is_at(name, self._address) for name in audiences if isinstance(name, str))


def json_of(part: str) -> Mapping[str, Any] | None:
    """The JSON object in a base64url-encoded part of a JWT; None if the part is not valid."""
    try:
        members = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        return None
    return members if isinstance(members, dict) else None


def time_of(value: Any) -> float | None:
    """A NumericDate (RFC 7519 section 2)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e12 else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
