"""The gateway as an OAuth protected resource: its challenges and its metadata document.

Pure module. A resource server responds with status 401 and the URL of its metadata (RFC 9728). The metadata name the
authorization servers that issue tokens, and the resource to request tokens for (RFC 8707); see MCP 2025-11-25 and
2026-07-28, Authorization.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from fairlead_gateway.identity.refusal import CredentialRefusal

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
_HOST: Final = re.compile(r"[A-Za-z0-9._-]+(:[0-9]+)?|\[[0-9A-Fa-f:.]+\](:[0-9]+)?")
_PATH: Final = re.compile(r"(/[A-Za-z0-9._~%-]+)*")


class ResourceMetadata(msgspec.Struct, frozen=True, omit_defaults=True):
    """Protected resource metadata (RFC 9728 section 2)."""

    resource: str
    authorization_servers: tuple[str, ...]
    bearer_methods_supported: tuple[str, ...]
    scopes_supported: tuple[str, ...] = ()
    resource_name: str = ""


class ProtectedResource:
    """Creates `WWW-Authenticate` challenges and the metadata document. `address` is the gateway's URL for clients, such
    as `https://tools.example.com`; if empty, the `Host` of each request is used. Without `issuers` there is no metadata
    document.
    """

    def __init__(
        self,
        address: str = "",
        issuers: Iterable[str] = (),
        scopes: Iterable[str] = (),
        *,
        secure: bool = False,
    ) -> None:
        self.address = address.rstrip("/")
        self._issuers = tuple(issuers)
        self.scopes = tuple(scopes)
        """Scopes that every token must have."""
        self._scheme = "https" if secure else "http"

    def metadata(self, path: str, host: str) -> ResourceMetadata | None:
        """Metadata of the resource at `path`, which is empty for the whole gateway; None if there are no issuers, or if
        `path` or `host` is invalid.
        """
        base = self._base(host)
        if not self._issuers or base is None or _PATH.fullmatch(path) is None:
            return None
        return ResourceMetadata(base + path, self._issuers, ("header",), self.scopes, "Fairlead")

    def headers(self, refusal: CredentialRefusal, host: str, path: str) -> dict[str, str]:
        """Headers of the response to a rejected request."""
        headers = {}
        if refusal.retry_after is not None:
            headers["retry-after"] = str(refusal.retry_after)
        if refusal.status in (400, 401, 403):
            headers["www-authenticate"] = self._challenge(refusal, host, path)
        return headers

    def _challenge(self, refusal: CredentialRefusal, host: str, path: str) -> str:
        parameters = []
        if refusal.error_code:
            parameters += [f'error="{refusal.error_code}"', f'error_description="{refusal.message}"']
        base = self._base(host)
        if self._issuers and base is not None:
            safe_path = path if _PATH.fullmatch(path) is not None else ""
            parameters.append(f'resource_metadata="{base}{WELL_KNOWN}{safe_path}"')
        if self.scopes:
            parameters.append(f'scope="{" ".join(self.scopes)}"')
        return f"Bearer {', '.join(parameters)}" if parameters else 'Bearer realm="fairlead"'

    def _base(self, host: str) -> str | None:
        if self.address:
            return self.address
        return f"{self._scheme}://{host}" if _HOST.fullmatch(host) is not None else None
