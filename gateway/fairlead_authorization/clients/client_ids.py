"""Validates URLs of client ID metadata documents and of key sets, and checks whether their hosts are allowed. Pure
module.

The id of a client with a document is the document's URL (draft-ietf-oauth-client-id-metadata-document, "Client
Identifier"), and ids are compared as strings. So a URL that software may interpret in two ways is rejected, and URLs
are never normalized.
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
"""Encoded slashes, backslashes and control characters. Other software may decode them before it splits the path."""
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
        """Host, and the port if it is not the default: the form of entries in `clientHosts`."""
        return self.host if self.port == _DEFAULT_PORT else f"{self.host}:{self.port}"

    @property
    def agent(self) -> str:
        """Name of the client in policies, unless the settings name it: the URL without its scheme."""
        return self.url.removeprefix(_SCHEME)


def is_document_id(client_id: str) -> bool:
    """Whether a client id is meant to be the URL of a document, valid or not."""
    return "://" in client_id[: len(_SCHEME)]


def document_address(url: str, url_name: str = "client id") -> DocumentAddress:
    """Check a URL, which messages call `url_name`. Raises UnknownClient."""
    if len(url) > MAX_URL:
        raise UnknownClient(f"the {url_name} is a URL of more than {MAX_URL} characters")
    match = _URL.fullmatch(url)
    port = int(match["port"] or _DEFAULT_PORT) if match else 0
    dots = match is not None and any(_DOT.sub(".", segment) in (".", "..") for segment in match["path"].split("/"))
    if match is None or dots or port > 65_535 or match["port"] == str(_DEFAULT_PORT) or _HIDDEN.search(url):
        raise UnknownClient(
            f"the {url_name} is not a usable URL: it has to be https://HOST/PATH with a host name in lower case, and "
            "without a user, a fragment, dot segments or encoded slashes"
        )
    return DocumentAddress(url, match["host"], port, (match["path"] + (match["query"] or "")).encode("ascii"))


def capacity_group(address: DocumentAddress, hosts: Collection[str]) -> str:
    """Group of documents that share a limit: the documents of one host that the settings name, or `*` for the documents
    of all other hosts. `hosts` is the setting `clientHosts`.
    """
    return address.authority if address.authority in hosts else ANY_HOST


def require_allowed(address: DocumentAddress, hosts: Collection[str]) -> None:
    """Raise UnknownClient unless the host of a URL is in `hosts`; `*` there stands for any host at the default port."""
    if address.authority in hosts or (ANY_HOST in hosts and address.port == _DEFAULT_PORT):
        return
    raise UnknownClient(
        f"clients of {address.authority} are not accepted here: an administrator can add {address.authority} to "
        "clientHosts of authorizationServer"
    )
