"""Authenticates the client at the token endpoint (RFC 6749 section 2.3, RFC 7523). No I/O.

| method | authentication |
|---|---|
| `client_secret_basic` | header `Authorization: Basic`, of form-encoded id and secret (RFC 6749 section 2.3.1) |
| `client_secret_post` | parameters `client_id` and `client_secret` |
| `private_key_jwt` | parameter `client_assertion`: a JWT that is signed with the client's private key |
| `none` | parameter `client_id`: a public client |

The audience of the JWT is the issuer, as draft-ietf-oauth-rfc7523bis requires: otherwise, a malicious authorization
server could make a client sign an assertion for the token endpoint of another server. The audience is the token
endpoint if the settings name no issuer, and at Microsoft Entra (`is_entra`), which accepts nothing else.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final
from urllib.parse import quote_plus, urlsplit

from fairlead_api.documents.catalog import Credential
from fairlead_api.documents.oauth import ENTRA_ON_BEHALF_OF, USER_CONSENT, OAuthSettings
from fairlead_mcp.oauth.errors import CONFIGURATION, GrantFailed

if TYPE_CHECKING:
    from fairlead_mcp.oauth.signing_key import SigningKey

BASIC: Final = "client_secret_basic"
POST: Final = "client_secret_post"
PRIVATE_KEY_JWT: Final = "private_key_jwt"
NONE: Final = "none"
ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
ENTRA_HOSTS: Final = frozenset(
    {
        "login.microsoftonline.com",
        "login.microsoft.com",
        "login.windows.net",
        "login.microsoftonline.us",
        "login.partner.microsoftonline.cn",
        "login.chinacloudapi.cn",
    }
)
"""Hosts of Entra's token endpoints in all its clouds."""
ENTRA_EXTERNAL_DOMAIN: Final = ".ciamlogin.com"
"""Suffix of the hosts of the token endpoints of Entra's external tenants."""


class ClientAuthentication:
    """Authentication of one client, by the method of the settings. Call `prepare` before `parameters`.

    With `userConsent`, the parameters always contain the client's id, because authorization servers with the Python SDK
    require it. Microsoft Entra requires it for all grants, so `client_secret_basic` is replaced by `client_secret_post`
    there.
    """

    def __init__(self, settings: OAuthSettings, credential: Credential) -> None:
        """Raises GrantFailed if the method is unknown, or the credential lacks its secret or key."""
        self._is_entra = settings.profile == ENTRA_ON_BEHALF_OF
        method = settings.client_authentication
        self.method = POST if self._is_entra and method == BASIC else method
        self._is_consent = settings.grant == USER_CONSENT
        self._client_id = settings.client_id
        self._secret = credential.client_secret
        self._issuer = "" if self._is_entra else settings.issuer
        self._private_key = credential.private_key
        self._key: SigningKey | GrantFailed | None = None
        """The key, or why it cannot be used; None before `prepare`."""
        if self.method == PRIVATE_KEY_JWT:
            if not credential.private_key:
                raise GrantFailed("private_key_jwt needs a private key in secretRef", cause=CONFIGURATION)
        elif self.method in (BASIC, POST):
            if not self._secret:
                raise GrantFailed(f"{method} needs a client secret in secretRef", cause=CONFIGURATION)
        elif self.method != NONE:
            raise GrantFailed(f"{method[:40]!r} is not a known clientAuthentication", cause=CONFIGURATION)

    @property
    def signs(self) -> bool:
        """Whether requests contain an assertion, whose times the authorization server compares with its clock."""
        return self.method == PRIVATE_KEY_JWT

    def prepare(self) -> None:
        """Read the private key on first use. Raises GrantFailed if it cannot be used."""
        if not self.signs:
            return
        if self._key is None:
            self._key = self._read_key()
        if isinstance(self._key, GrantFailed):
            raise self._key.copy()

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that must not occur in messages."""
        if not self._secret:
            return ()
        return (self._secret, quote_plus(self._secret), self._basic_credentials)

    def header_line(self) -> bytes:
        """Header line of a token request; empty if the client authenticates by parameters."""
        return f"Authorization: Basic {self._basic_credentials}\r\n".encode("ascii") if self.method == BASIC else b""

    def parameters(self, token_url: str, now: float) -> dict[str, str]:
        """Parameters of a token request, with a new assertion at each call. `now` is in seconds since the epoch."""
        if self.method == BASIC:
            return {"client_id": self._client_id} if self._is_consent else {}
        if self.method == POST:
            return {"client_id": self._client_id, "client_secret": self._secret}
        if self.method == NONE:
            return {"client_id": self._client_id}
        assert self._key is not None, "prepare() was called"
        assert not isinstance(self._key, GrantFailed), "prepare() would have raised"
        audience = token_url if is_entra(token_url) else self._issuer or token_url
        assertion = self._key.assertion(self._client_id, audience, now)
        return {
            "client_id": self._client_id,
            "client_assertion_type": ASSERTION_TYPE,
            "client_assertion": assertion,
        }

    def _read_key(self) -> SigningKey | GrantFailed:
        # imported late, because it loads `cryptography`, which few servers need
        from fairlead_mcp.oauth.signing_key import SigningKey

        try:
            return SigningKey(self._private_key, entra=self._is_entra)
        except GrantFailed as error:
            return error.copy()

    @property
    def _basic_credentials(self) -> str:
        pair = f"{quote_plus(self._client_id)}:{quote_plus(self._secret)}"
        return base64.b64encode(pair.encode("ascii")).decode("ascii")


def is_entra(url: str) -> bool:
    """Whether the URL of a token endpoint is one of Microsoft Entra."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    return host in ENTRA_HOSTS or host.endswith(ENTRA_EXTERNAL_DOMAIN)
