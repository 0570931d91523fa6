"""Discovers an issuer's endpoints, and the issuers that a server names.

Requests about the server are sent to the server itself, and requests about the issuer to the issuer of the settings: no
document or challenge leads to a third host, except to the issuer's own endpoints. If users sign in and the settings
name no issuer, the issuer is that which the server names; it gets no secret of another issuer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from fairlead_mcp.http.answer import Answer
from fairlead_mcp.http.target import Target
from fairlead_mcp.oauth.challenge import Challenge
from fairlead_mcp.oauth.errors import BAD_ANSWER, DISCOVERY, PROVIDER_ERROR, TIMEOUT, UNREACHABLE, GrantFailed
from fairlead_mcp.oauth.metadata import (
    AuthorizationServerMetadata,
    ProtectedResourceMetadata,
    covers,
    other_resource_failure,
    read_resource_metadata,
    read_server_metadata,
    require_issuer,
    resource_metadata_path,
    resource_metadata_paths,
    server_metadata_urls,
)
from fairlead_mcp.oauth.token_access import TokenAccess
from fairlead_mcp.oauth.token_http import JSON, open_http

_PING: Final = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
_NO_METADATA: Final = frozenset({BAD_ANSWER, PROVIDER_ERROR, TIMEOUT, UNREACHABLE})
"""Causes for which a server counts as a server without metadata."""
Metadata = TypeVar("Metadata")


async def check_issuer(access: TokenAccess, issuer: str, resource_metadata: str, *, consent: bool = False) -> None:
    """Check that a server's metadata, if it names issuers, names the client's. `consent`: whether users sign in there.

    Raises GrantFailed if the metadata names only other issuers, and like `discover_resource`. Missing or unreadable
    metadata does not matter, because the settings name the issuer.
    """
    metadata = await discover_resource(access, resource_metadata)
    if metadata is not None:
        require_issuer(metadata, issuer, consent=consent)


async def discover_challenge(access: TokenAccess) -> Challenge:
    """The challenge of a server to a request without token; empty if it sends none. Raises GrantFailed for an invalid
    CA bundle.
    """
    server = Target.from_url(access.server_url, access.host_header)
    http = await open_http(server, access, access.server_ca_bundle, "server")
    try:
        answer = await http.post(_PING, kind=JSON)
    except GrantFailed:  # the next request will fail for the same reason, and report it
        return Challenge()
    finally:
        await http.aclose()
    challenge = Challenge.parse(answer.headers.get(b"www-authenticate")) if answer.status == 401 else None
    return challenge or Challenge()


async def discover_resource(access: TokenAccess, resource_metadata: str) -> ProtectedResourceMetadata | None:
    """Read the metadata of a server; None if it is missing or unreadable. `resource_metadata` is the URL in the
    server's challenge; if it is empty, only the well-known URLs are read.

    Raises GrantFailed if the URL of a challenge is at another origin, or its document is about another resource.
    """
    if not access.server_url:
        return None
    server = Target.from_url(access.server_url, access.host_header)
    paths = resource_metadata_paths(server)
    if resource_metadata:
        paths = (resource_metadata_path(server, resource_metadata), *paths)
    http = await open_http(server, access, access.server_ca_bundle, "server")
    try:
        for number, path in enumerate(dict.fromkeys(paths)):
            answer = await http.get(path)
            metadata = read_resource_metadata(answer.body) if answer.status == 200 else None
            if metadata is None:
                continue
            if covers(metadata.resource, server):
                return metadata
            if resource_metadata and number == 0:
                raise other_resource_failure(metadata, server)
    except GrantFailed as error:
        if error.cause not in _NO_METADATA:
            raise
    finally:
        await http.aclose()
    return None


async def discover_issuer(
    access: TokenAccess, issuer: str, ca_bundle: str | None, *, named_by_server: bool = False
) -> AuthorizationServerMetadata:
    """Read an issuer's metadata from its well-known URLs. `named_by_server`: whether a server named the issuer, instead
    of the settings. Raises GrantFailed.
    """
    urls = server_metadata_urls(issuer)
    http = await open_http(Target.from_url(issuer), access, ca_bundle, "issuer")

    def read(body: bytes, url: str) -> AuthorizationServerMetadata:
        return read_server_metadata(body, issuer, url, named_by_server=named_by_server)

    try:
        return await find_metadata(http.get, issuer, urls, read, "tokenURL")
    finally:
        await http.aclose()


async def find_metadata(
    get: Callable[[bytes], Awaitable[Answer]],
    issuer: str,
    urls: Sequence[str],
    read: Callable[[bytes, str], Metadata],
    setting: str,
) -> Metadata:
    """Read an issuer's metadata from the first of `urls` with a document that `read` accepts. Raises GrantFailed.

    `get` requests a path. `read` raises GrantFailed for a document that it does not accept. `setting` is the name of
    the setting that makes discovery unnecessary, for messages.
    """
    failure: GrantFailed | None = None
    status = 0
    for url in urls:
        answer = await get(Target.from_url(url).path)
        if answer.status == 200:
            try:
                return read(answer.body, url)
            except GrantFailed as error:  # another URL may have the issuer's own metadata
                failure = failure or error
        elif answer.status >= 500:
            status = answer.status
    if failure is not None:
        raise failure
    if status:
        raise GrantFailed(f"the issuer {issuer} failed with status {status}: try again later", cause=PROVIDER_ERROR)
    raise GrantFailed(
        f"the issuer {issuer} publishes no metadata at {', '.join(urls)}: correct the issuer, or set {setting}",
        cause=DISCOVERY,
    )
