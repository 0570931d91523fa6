"""Registration by clients themselves (RFC 7591). The id of a client is its sealed metadata, so nothing is stored.

So a single registration cannot be revoked. It expires, and all registrations become invalid when the installation's key
is replaced. Registered clients are public, because anybody can register, so that a secret would prove nothing. The
response contains the metadata that the client has; unsupported metadata are left out (section 3.2.1).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from fairlead_authorization.clients.client import RegisteredClient, UnknownClient
from fairlead_authorization.clients.documents import client_digest, display_name, usable_redirects
from fairlead_authorization.clients.redirects import redirect_host
from fairlead_gateway.identity.authorization_server import ClientRegistrationSettings
from fairlead_gateway.identity.sealed_values import ValueSealer, ValueTooLong

ID_PREFIX: Final = "registered."
MAX_BODY_BYTES: Final = 16 << 10
"""Maximum number of bytes of a registration request."""
MAX_ID: Final = 1_536
"""Maximum number of characters of a registered client's id, because the id is part of URLs."""
SEALER_USE: Final = b"oauth-client"
"""Parameter `use` of the `ValueSealer` of ids."""
_PURPOSE: Final = "client id"
_DAY: Final = 86_400

INVALID_REDIRECT_URI: Final = "invalid_redirect_uri"
INVALID_CLIENT_METADATA: Final = "invalid_client_metadata"


class RegistrationRefused(Exception):
    """A client cannot be registered. `error` is a code of RFC 7591 section 3.2.2; the message is one sentence."""

    def __init__(self, error: str, message: str) -> None:
        super().__init__(message)
        self.error = error


class RegistrationAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Client information response (RFC 7591 section 3.2.1), to be sent with status 201."""

    client_id: str
    client_id_issued_at: int
    redirect_uris: tuple[str, ...]
    client_name: str
    grant_types: tuple[str, ...] = ("authorization_code", "refresh_token")
    response_types: tuple[str, ...] = ("code",)
    token_endpoint_auth_method: str = "none"  # noqa: S105  # the name of a method


class _Request(msgspec.Struct, frozen=True):
    redirect_uris: Any = None
    client_name: Any = None
    grant_types: Any = None
    response_types: Any = None


class _SealedClient(msgspec.Struct, frozen=True, array_like=True):
    redirect_uris: tuple[str, ...]
    name: str
    issued_at: int
    """Seconds since the epoch."""


_decode: Final = msgspec.json.Decoder(_Request).decode
_decode_sealed_client: Final = msgspec.json.Decoder(_SealedClient).decode


class Registrations:
    """Registers clients, and finds registered clients by their ids. `key` is the installation's key; if it is empty,
    registrations are valid until this process ends. `now` returns seconds since the epoch.
    """

    def __init__(self, settings: ClientRegistrationSettings, key: bytes, now: Callable[[], float] = time.time) -> None:
        self._hosts = frozenset(settings.redirect_hosts)
        self._seconds = settings.days * _DAY
        self._sealer = ValueSealer(key, SEALER_USE)
        self._now = now

    def register(self, body: bytes) -> RegistrationAnswer:
        """Register the client that sent the request `body`. Raises RegistrationRefused."""
        request = _read(body)
        uris = tuple(uri for uri in usable_redirects(request.redirect_uris) if redirect_host(uri) in self._hosts)
        if not uris:
            raise RegistrationRefused(INVALID_REDIRECT_URI, self._advice(request.redirect_uris))
        issued_at = int(self._now())
        name = display_name(request.client_name)
        try:
            sealed = ID_PREFIX + self._sealer.seal(_SealedClient(uris, name, issued_at), _PURPOSE)
        except ValueTooLong:
            sealed = ""
        if not sealed or len(sealed) > MAX_ID:
            raise RegistrationRefused(
                INVALID_CLIENT_METADATA, "the redirect URIs and the name are too long together: register fewer of them"
            )
        return RegistrationAnswer(client_id=sealed, client_id_issued_at=issued_at, redirect_uris=uris, client_name=name)

    def find(self, client_id: str) -> RegisteredClient:
        """The client with an id that `register` has assigned. Raises UnknownClient."""
        sealed = client_id.removeprefix(ID_PREFIX)
        metadata = self._sealer.open(sealed, _PURPOSE) if len(client_id) <= MAX_ID and sealed.isascii() else None
        if metadata is None:
            raise UnknownClient("this client is not registered here: remove its registration, and connect it again")
        client = _decode_sealed_client(metadata)
        expires_at = client.issued_at + self._seconds
        if self._now() >= expires_at:
            raise UnknownClient("the registration of this client has expired: remove it, and connect the client again")
        redirect_uris = tuple(uri for uri in client.redirect_uris if redirect_host(uri) in self._hosts)
        if not redirect_uris:
            raise UnknownClient(self._advice(client.redirect_uris))
        return RegisteredClient(
            id=client_id,
            kind="registered",
            name=client.name,
            redirect_uris=redirect_uris,
            digest=client_digest(redirect_uris, "none", ()),
            expires_at=float(expires_at),
        )

    def _advice(self, redirect_uris: Any) -> str:
        """Why none of the redirect URIs can be used, and what to do."""
        hosts = [redirect_host(uri) for uri in redirect_uris if isinstance(uri, str)]
        host = next(filter(None, hosts), "")
        if not host:
            return "none of the redirect URIs is usable: https, or http on a loopback address, without a fragment"
        return (
            f"clients at {host} cannot register here: an administrator can add {host} to redirectHosts of "
            "authorizationServer.registration"
        )


def _read(body: bytes) -> _Request:
    if len(body) > MAX_BODY_BYTES:
        raise RegistrationRefused(INVALID_CLIENT_METADATA, f"the request has more than {MAX_BODY_BYTES} bytes")
    try:
        request = _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise RegistrationRefused(INVALID_CLIENT_METADATA, "the request is not a JSON object") from None
    if not isinstance(request.redirect_uris, list):
        raise RegistrationRefused(INVALID_REDIRECT_URI, "redirect_uris has to be a list of URIs")
    for member, required in (("grant_types", "authorization_code"), ("response_types", "code")):
        values = getattr(request, member)
        if isinstance(values, list) and values and required not in values:
            raise RegistrationRefused(INVALID_CLIENT_METADATA, f"{member} has to include {required}")
    return request
