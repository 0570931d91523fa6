"""Parses client ID metadata documents (draft-ietf-oauth-client-id-metadata-document). No I/O.

Unsupported content is ignored if the client works without it: other grants, such as `jwt-bearer` in Claude's document
or `device_code` in VS Code's, unusable redirect URIs if others are usable, and logos. A document that requires or
contains a shared secret is refused, because everybody can read it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec import UNSET

from fairlead_authorization.clients.client import Authentication, RegisteredClient, UnknownClient
from fairlead_authorization.clients.client_ids import DocumentAddress
from fairlead_authorization.clients.key_sets import BadKeySet, thumbprint, usable_keys
from fairlead_authorization.clients.redirects import redirect_problem

MAX_DOCUMENT_BYTES: Final = 5 << 10
"""Maximum number of bytes of a document (draft, "Client Metadata Document Size")."""
MAX_REDIRECTS: Final = 32
"""Limit on the redirect URIs of a client; further ones are ignored."""
_MAX_NAME: Final = 80
"""Limit on a client's name in characters."""


class ClientDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Validated document, before keys at `jwks_uri` are fetched."""

    name: str
    redirect_uris: tuple[str, ...]
    authentication: Authentication
    keys: tuple[dict[str, Any], ...] = ()
    jwks_uri: str = ""
    """URL of the keys; empty if the document contains the keys, or the client is public."""


class _DocumentMembers(msgspec.Struct, frozen=True):
    """Members that are read. Members whose type need not be valid have the type `Any`."""

    client_id: str
    redirect_uris: list[Any]
    client_name: Any = None
    token_endpoint_auth_method: Any = None
    jwks: Any = None
    jwks_uri: Any = None
    client_secret: Any = UNSET
    client_secret_expires_at: Any = UNSET


_decode: Final = msgspec.json.Decoder(_DocumentMembers).decode


def read_document(data: bytes, address: DocumentAddress) -> ClientDocument:
    """Read the document at a client's URL. Raises UnknownClient."""
    try:
        members = _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise _unusable(address, "is not JSON with client_id and redirect_uris") from None
    if members.client_id != address.url:
        raise _unusable(address, "has another client_id than its URL")
    if members.client_secret is not UNSET or members.client_secret_expires_at is not UNSET:
        raise _unusable(address, "has a client_secret, which everybody can read")
    redirect_uris = usable_redirects(members.redirect_uris)
    if not redirect_uris:
        raise _unusable(address, "has no usable redirect URI: https, or http on a loopback address, without a fragment")
    method = members.token_endpoint_auth_method
    if method not in (None, "none", "private_key_jwt"):
        raise _unusable(address, "has a token_endpoint_auth_method other than none and private_key_jwt")
    name = display_name(members.client_name)
    if method != "private_key_jwt":
        return ClientDocument(name=name, redirect_uris=redirect_uris, authentication="none")
    keys: tuple[dict[str, Any], ...] = ()
    jwks_uri = members.jwks_uri if isinstance(members.jwks_uri, str) else ""
    if members.jwks is not None or not jwks_uri:
        jwks_uri = ""
        raw_keys = members.jwks.get("keys") if isinstance(members.jwks, dict) else None
        try:
            keys = usable_keys(raw_keys if isinstance(raw_keys, list) else ())
        except BadKeySet as error:
            raise _unusable(address, f"has private_key_jwt, and its key set {error}") from None
    return ClientDocument(
        name=name, redirect_uris=redirect_uris, authentication="private_key_jwt", keys=keys, jwks_uri=jwks_uri
    )


def client_of_document(
    document: ClientDocument,
    address: DocumentAddress,
    agent: str,
    keys: tuple[dict[str, Any], ...],
    *,
    is_named: bool = False,
) -> RegisteredClient:
    """The client of a document. `keys` are from the document or its `jwks_uri`. `is_named`: whether the settings name
    the client or its host.
    """
    return RegisteredClient(
        id=address.url,
        kind="document",
        name=document.name,
        redirect_uris=document.redirect_uris,
        agent=agent,
        authentication=document.authentication,
        keys=keys,
        is_named=is_named,
        digest=client_digest(
            document.redirect_uris,
            document.authentication,
            # a key set at `jwks_uri` is replaced regularly, and the client stays the same
            [document.jwks_uri] if document.jwks_uri else map(thumbprint, keys),
        ),
    )


def client_digest(redirect_uris: Iterable[str], authentication: Authentication, proofs: Iterable[str]) -> str:
    """Digest that identifies a client by its redirect URIs, its authentication method and its `proofs` (thumbprints of
    keys, or another text). Their order does not matter.
    """
    parts = (sorted(set(redirect_uris)), authentication, sorted(proofs))
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def usable_redirects(values: Iterable[Any]) -> tuple[str, ...]:
    """The usable redirect URIs of a list, without duplicates, at most MAX_REDIRECTS."""
    usable = dict.fromkeys(value for value in values if isinstance(value, str) and not redirect_problem(value))
    return tuple(usable)[:MAX_REDIRECTS]


def display_name(value: Any) -> str:
    """A client's name on one line, without control characters and characters that reverse the direction of text; empty
    if it is not a string.
    """
    if not isinstance(value, str):
        return ""
    printable = "".join(character if character.isprintable() else " " for character in value[: 4 * _MAX_NAME])
    line = " ".join(printable.split())
    return line if len(line) <= _MAX_NAME else line[: _MAX_NAME - 1] + "…"


def _unusable(address: DocumentAddress, why: str) -> UnknownClient:
    return UnknownClient(f"the document of the client {address.url} {why}: its publisher has to correct it")
