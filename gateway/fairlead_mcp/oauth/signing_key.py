"""Reads the private key of an OAuth client, and signs client assertions with it (RFC 7523). No I/O."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import (
    RSAPrivateKey,
    RSAPrivateNumbers,
    RSAPublicNumbers,
    rsa_recover_prime_factors,
)
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from fairlead_mcp.oauth.errors import CONFIGURATION, GrantFailed

ASSERTION_SECONDS: Final = 60
"""Lifetime of a client assertion on the authorization server's clock (`clock_offset`)."""
MIN_RSA_BITS: Final = 2_048
MAX_RSA_BITS: Final = 8_192
"""Maximum length of RSA keys. The time to sign grows with the cube of the length: 70 ms for 8,192 bits."""
_MAX_BITS_WITHOUT_PRIMES: Final = 4_096
"""Maximum length of RSA keys without primes, which have to be computed."""
_MAX_MEMBER: Final = 4 * (MAX_RSA_BITS // 24 + 1)
"""Maximum base64url characters of a number in a JWK, with padding."""
_MAX_DER: Final = 5_120
"""Maximum bytes of a decoded PEM key; an RSA key of MAX_RSA_BITS has about 4,700."""
MAX_KEY_CHARACTERS: Final = 64 << 10
_ALGORITHMS: Final[Mapping[str, frozenset[str]]] = {
    "RSA": frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}),
    "P-256": frozenset({"ES256"}),
    "P-384": frozenset({"ES384"}),
    "P-521": frozenset({"ES512"}),
    "Ed25519": frozenset({"EdDSA", "Ed25519"}),
}
"""Signature algorithms by key type or curve (RFC 7518 section 3.1, RFC 8037 section 3.1)."""
_DEFAULTS: Final[Mapping[str, str]] = {
    "RSA": "RS256",
    "P-256": "ES256",
    "P-384": "ES384",
    "P-521": "ES512",
    "Ed25519": "EdDSA",
}
_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")
_PEM_KEY: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]*)PRIVATE KEY-----([^-]+)-----END \1PRIVATE KEY-----")
_NUMBERS: Final = ("n", "e", "d", "p", "q", "dp", "dq", "qi")
"""Members of a JWK that are numbers of an RSA key (RFC 7518 section 6.3)."""
_PRIMES: Final = ("p", "q", "dp", "dq", "qi")
_RSA_BITS: Final = f"an RSA key must have {MIN_RSA_BITS} to {MAX_RSA_BITS} bits"
_HEADER_MEMBERS: Final = ("kid", "x5t", "x5t#S256")


class SigningKey:
    """Private key of a client, with the algorithm and the header of its assertions.

    The algorithm is the JWK's `alg`. Without `alg`, it is RS256 for RSA (PS256 at Microsoft Entra, as recommended), or
    the algorithm of the curve. A certificate beside a PEM key provides the thumbprint by which Entra identifies the
    key.
    """

    def __init__(self, text: str, *, entra: bool = False) -> None:
        """`text`: PEM (PKCS #8, PKCS #1 or SEC 1, not encrypted) or JWK (RFC 7517). Raises GrantFailed."""
        if len(text) > MAX_KEY_CHARACTERS:
            raise _unusable("it is too long")
        try:
            self._key, members = _read_jwk(text) if text.lstrip().startswith("{") else _read_pem(text)
            kind = "RSA" if isinstance(self._key, RSAKey) else str(self._key.as_dict(private=False).get("crv"))
        except (JoseError, ValueError, TypeError, KeyError, msgspec.MsgspecError, RecursionError):
            # the exception may quote the key
            raise _unusable("it is neither an unencrypted PEM private key nor a JWK") from None
        if kind not in _ALGORITHMS or not self._key.is_private:
            raise _unusable("it must be a private RSA, EC (P-256, P-384, P-521) or Ed25519 key")
        self.algorithm = members.get("alg") or ("PS256" if entra and kind == "RSA" else _DEFAULTS[kind])
        if self.algorithm not in _ALGORITHMS[kind]:
            raise _unusable(f"its alg {self.algorithm[:20]!r} does not fit its type")
        self._header = {"alg": self.algorithm, "typ": "JWT"}
        self._header |= {name: members[name] for name in _HEADER_MEMBERS if name in members}

    def assertion(self, client_id: str, audience: str, now: float) -> str:
        """Sign a new assertion (RFC 7523 section 3). `now` is in seconds since the epoch."""
        claims = {
            "iss": client_id,
            "sub": client_id,
            "aud": audience,
            "jti": secrets.token_urlsafe(24),
            "iat": int(now),
            "exp": int(now) + ASSERTION_SECONDS,
        }
        return jwt.encode(self._header, claims, self._key, registry=_SIGNING)


class _SigningRegistry(JWSRegistry):
    """Registry without the warning about EdDSA, whose new name Ed25519 (RFC 9864) few authorization servers know."""

    def get_alg(self, name: str) -> Any:
        return self.algorithms[name]


_SIGNING: Final = _SigningRegistry()


def _read_jwk(text: str) -> tuple[Key, dict[str, str]]:
    members = msgspec.json.decode(text, type=dict[str, Any])
    kinds: dict[str, type[RSAKey | ECKey | OKPKey]] = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}
    if any(len(str(members.get(name, ""))) > _MAX_MEMBER for name in _NUMBERS):
        raise _unusable(_RSA_BITS)
    kind = kinds[str(members.get("kty"))]
    key: Key = _read_rsa_jwk(members) if kind is RSAKey and "d" in members else kind.import_key(members)
    texts = {name: members[name] for name in ("alg", *_HEADER_MEMBERS) if isinstance(members.get(name), str)}
    return key, texts


def _read_pem(text: str) -> tuple[Key, dict[str, str]]:
    match = _PEM_KEY.search(text)
    if match is None:
        raise ValueError("no private key")
    pem = match[0]
    if len(base64.b64decode(match[2])) > _MAX_DER:
        raise _unusable(_RSA_BITS)
    certificate = _CERTIFICATE.search(text)
    members = {} if certificate is None else _thumbprints(certificate[0])
    loaded = load_pem_private_key(pem.encode("ascii"), None, unsafe_skip_rsa_key_validation=True)
    if isinstance(loaded, RSAPrivateKey):
        return _check_rsa_key(loaded), members
    for kind in (ECKey, OKPKey):
        try:
            return kind.import_key(pem), members
        except (JoseError, ValueError, TypeError):
            continue
    raise ValueError("no supported private key")


def _read_rsa_jwk(members: Mapping[str, Any]) -> Key:
    """The RSA key in a JWK. Raises GrantFailed, KeyError, TypeError or ValueError."""
    n, e, d = (_number(members, name) for name in ("n", "e", "d"))
    if "oth" in members:
        raise ValueError("more than two primes")
    if all(name in members for name in _PRIMES):
        p, q, dp, dq, qi = (_number(members, name) for name in _PRIMES)
    elif n.bit_length() > _MAX_BITS_WITHOUT_PRIMES:
        raise _unusable(f"an RSA key of more than {_MAX_BITS_WITHOUT_PRIMES} bits must have {', '.join(_PRIMES)}")
    else:
        p, q = rsa_recover_prime_factors(n, e, d)
        dp, dq, qi = d % (p - 1), d % (q - 1), pow(q, -1, p)
    numbers = RSAPrivateNumbers(p, q, d, dp, dq, qi, RSAPublicNumbers(e, n))
    return _check_rsa_key(numbers.private_key(unsafe_skip_rsa_key_validation=True))


def _check_rsa_key(key: RSAPrivateKey) -> Key:
    """Check that a key has an allowed length and that its numbers are consistent. Raises GrantFailed or ValueError.

    The validation of `cryptography` also proves that p and q are primes, which blocks all threads for 0.6 s for a key
    of 4,096 bits, and 12 s for 8,192 bits. Without the proof, wrong numbers only lead to invalid signatures.
    """
    if not MIN_RSA_BITS <= key.key_size <= MAX_RSA_BITS:
        raise _unusable(_RSA_BITS)
    numbers = key.private_numbers()
    p, q, d, e = numbers.p, numbers.q, numbers.d, numbers.public_numbers.e
    is_possible = p & q & e & 1 and min(p, q, e) > 1 and p != q
    if not is_possible or p * q != numbers.public_numbers.n or d * e % (p - 1) != 1 or d * e % (q - 1) != 1:
        raise ValueError("inconsistent numbers")
    if (numbers.dmp1, numbers.dmq1) != (d % (p - 1), d % (q - 1)) or numbers.iqmp >= p or numbers.iqmp * q % p != 1:
        raise ValueError("inconsistent numbers")
    return RSAKey.import_key(key)


def _number(members: Mapping[str, Any], name: str) -> int:
    return int.from_bytes(base64.urlsafe_b64decode(members[name] + "=="), "big")


def _thumbprints(certificate: str) -> dict[str, str]:
    """Thumbprints of a PEM certificate as members of a header (RFC 7515 sections 4.1.7 and 4.1.8)."""
    der = x509.load_pem_x509_certificate(certificate.encode()).public_bytes(Encoding.DER)
    sha1 = hashlib.sha1(der, usedforsecurity=False).digest()  # the thumbprint's definition
    return {"x5t": _base64url(sha1), "x5t#S256": _base64url(hashlib.sha256(der).digest())}


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _unusable(reason: str) -> GrantFailed:
    return GrantFailed(f"the private key of the OAuth client cannot be used: {reason}", cause=CONFIGURATION)
