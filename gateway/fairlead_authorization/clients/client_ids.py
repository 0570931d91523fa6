"""URLs of client ID metadata documents and of key sets: which are acceptable, and whose hosts are allowed. Pure module.

A client that is known by a document has the document's URL as its id (draft-ietf-oauth-client-id-metadata-document,
"Client Identifier"), and ids are compared as texts. A URL that could be read in two ways is therefore not accepted, and
none is ever normalized.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

import msgspec

from fairlead_authorization.clients.client import UnknownClient
from fairlead_gateway.identity.authorization_server import ANY_HOST, HOST_NAME, HOST_PORT

MAX_URL: Final = 1_024
"""Limit on a URL in characters."""
_SCHEME: Final = "https://"
_DEFAULT_PORT: Final = 443
_URL: Final = re.compile(
    rf"https://(?P<host>{HOST_NAME})(?::(?P<port>{HOST_PORT}))?"
    r"(?P<path>/(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})+)"
    r"(?P<query>\?(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?"
)
_HIDDEN: Final = re.compile(r"%(?:2f|5c|[01][0-9a-f]|7f)", re.IGNORECASE)
"""Encoded slashes, backslashes and control characters, which other software may decode before it reads the path."""
_DOT: Final = re.compile(r"%2e", re.IGNORECASE)


class DocumentAddress(msgspec.Struct, frozen=True):
    """Checked https URL."""

    url: str
    host: str
    port: int
    target: bytes
    """Path and query, as in a request line (RFC 9112 section 3.2.1)."""

    @property
    def authority(self) -> str:
        """Host, and the port where it is not the default: what `clientHosts` has."""
        return self.host if self.port == _DEFAULT_PORT else f"{self.host}:{self.port}"

    @property
    def agent(self) -> str:
        """Name of the client in policies, unless the settings name it: the URL without its scheme."""
        return self.url.removeprefix(_SCHEME)


def is_document_id(client_id: str) -> bool:
    """Whether a client id is meant to be the URL of a document, acceptable or not."""
    return "://" in client_id[: len(_SCHEME)]


def document_address(url: str, what: str = "client id") -> DocumentAddress:
    """Check a URL, which messages call `what`. Raises UnknownClient."""
    if len(url) > MAX_URL:
        raise UnknownClient(f"the {what} is a URL of more than {MAX_URL} characters")
    match = _URL.fullmatch(url)
    port = int(match["port"] or _DEFAULT_PORT) if match else 0
    dots = match is not None and any(_DOT.sub(".", part) in (".", "..") for part in match["path"].split("/"))
    if match is None or dots or port > 65_535 or match["port"] == str(_DEFAULT_PORT) or _HIDDEN.search(url):
        raise UnknownClient(
            f"the {what} is not a usable URL: it has to be https://HOST/PATH with a host name in lower case, and "
            "without a user, a fragment, dot segments or encoded slashes"
        )
    return DocumentAddress(url, match["host"], port, (match["path"] + (match["query"] or "")).encode("ascii"))


def lot_of(address: DocumentAddress, hosts: Collection[str]) -> str:
    """Host with whose documents one shares room: its own, if the settings name it, else `*` for all others.
    `hosts` are those of `clientHosts`.
    """
    return address.authority if address.authority in hosts else ANY_HOST


def require_allowed(address: DocumentAddress, hosts: Collection[str]) -> None:
    """Raise UnknownClient unless the host of a URL is among `hosts`, of which `*` is any host at the default port."""
    if address.authority in hosts or (ANY_HOST in hosts and address.port == _DEFAULT_PORT):
        return
    raise UnknownClient(
        f"clients of {address.authority} are not accepted here: an administrator can add {address.authority} to "
        "clientHosts of authorizationServer"
    )
