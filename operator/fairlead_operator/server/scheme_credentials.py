"""Credentials of security schemes of an OpenAPI document (`spec.openapi.credentials`), as requests send them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from fairlead_api.documents.catalog import SentCredential
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.mcpserver import McpServerSpec, SchemeCredential
from fairlead_operator.server.presented_credentials import ReferencedSecret, UnusableSecret
from fairlead_operator.server.secret_arguments import secret_text

_HEADER_VALUE: Final = re.compile(r"[!-~]([\t -~]*[!-~])?")
_COOKIE_VALUE: Final = re.compile(r"[!#-+\--:<-\[\]-~]+")
"""RFC 6265 section 4.1.1: `cookie-octet`."""


def scheme_credentials(spec: McpServerSpec) -> Mapping[str, SchemeCredential]:
    """The credentials of an HTTP API, by the names of security schemes; empty for an MCP server."""
    return {} if spec.openapi is None else spec.openapi.credentials


def sent_credential(credential: SchemeCredential, secret: ReferencedSecret | None, url: str) -> SentCredential:
    """The parts of requests to `url` that satisfy a security scheme, in addition to the parts of `spec.auth`.

    `secret` is None if the credential has no `secret_ref`: then `spec.auth` alone satisfies the scheme. Raises
    UnusableSecret.
    """
    if secret is None:
        return SentCredential()
    text = secret_text(secret, url).strip()
    if credential.query is not None:
        return SentCredential(query={credential.query.name: text})
    if credential.cookie is not None:
        _check(_COOKIE_VALUE, text, secret, "cookies")
        return SentCredential(cookies={credential.cookie.name: text})
    _check(_HEADER_VALUE, text, secret, "HTTP headers")
    if credential.header is not None:
        return SentCredential(headers={credential.header.name: text})
    return SentCredential(headers={"Authorization": f"Bearer {text}"})


def _check(pattern: re.Pattern[str], text: str, secret: ReferencedSecret, destination: str) -> None:
    """Raise UnusableSecret if `text` does not match; `destination` is where it would be sent."""
    if not pattern.fullmatch(text):
        message = f"{secret.label} is empty or contains characters that {destination} must not contain"
        raise UnusableSecret(Cause.SECRET_VALUE_INVALID, message)
