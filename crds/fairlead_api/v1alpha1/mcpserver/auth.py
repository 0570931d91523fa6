"""Authentication of Fairlead to a server: a credential from a Secret, as a bearer token or in a named header.

Only references are stored; values never enter a resource. This module has no I/O.
"""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Final

from pydantic import Field

from fairlead_api.v1alpha1.common import Model, SecretKey
from fairlead_api.v1alpha1.names import ObjectName
from fairlead_api.v1alpha1.rules import ValidationRule

_HEADER: Final = r"^[A-Za-z0-9!#$%&*+.^_|~-]+$"
_RESERVED: Final = (
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
)

HEADER_NAME = ValidationRule(
    cel=f"self.matches(r'{_HEADER}') && !(self.lowerAscii() in {list(_RESERVED)!r})",
    message="must be the name of an HTTP header for a credential, such as X-API-Key; "
    "headers of HTTP and MCP themselves cannot be used",
    holds=lambda name: re.fullmatch(_HEADER, name) is not None and name.lower() not in _RESERVED,
)


class CredentialSource(Model):
    """One key of a Secret of the same namespace that has the label `fairlead.dev/credential: "true"`.

    If the Secret has the annotation `fairlead.dev/hosts` (comma-separated), its value is only sent to these hosts:
    `tools.example.com` (https, any port), `tools.example.com:8443`, `https://tools.example.com:8443`, or
    `http://tools.example.com:8080`. Without such an http entry, the value is sent unencrypted only to Services of the
    cluster and to loopback addresses.
    """

    atomic: ClassVar[bool] = True

    name: ObjectName
    """Name of the Secret."""
    key: SecretKey = "token"
    """Key within the Secret's data."""


class BearerAuth(Model):
    """Credential that is sent as `Authorization: Bearer VALUE`: a token or an API key."""

    secret_ref: CredentialSource
    """Secret with the token."""


class HeaderAuth(Model):
    """Credential that is sent in another header, with the Secret's value unchanged."""

    name: Annotated[str, Field(min_length=1, max_length=128), HEADER_NAME]
    """Name of the header, such as `X-API-Key`."""
    secret_ref: CredentialSource
    """Secret with the value."""


class Auth(Model):
    """How requests to the server are authenticated: exactly one member is set."""

    bearer: BearerAuth | None = None
    """A token or API key in the `Authorization` header."""
    header: HeaderAuth | None = None
    """A value in a named header."""

    guards: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            cel="[has(self.bearer), has(self.header)].filter(x, x).size() == 1",
            message="auth: set exactly one of bearer, header",
            holds=lambda auth: (auth.bearer is None) != (auth.header is None),
        ),
    )

    @property
    def secret_ref(self) -> CredentialSource:
        """The Secret of the member that is set. Raises ValueError if none is set."""
        member = self.bearer or self.header
        if member is None:  # possible only in a model that was not validated
            raise ValueError("auth has no member")
        return member.secret_ref
