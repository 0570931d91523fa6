"""How Fairlead shows itself to a server: a credential from a Secret, as a bearer token or in a header of a given name.

Holds references only; values never enter a resource. Pure.
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
    message="must be the name of an HTTP header that carries a credential, such as X-API-Key; "
    "headers of HTTP and MCP themselves are not for it",
    holds=lambda name: re.fullmatch(_HEADER, name) is not None and name.lower() not in _RESERVED,
)


class CredentialSource(Model):
    """One key of a Secret of the same namespace that carries the label `fairlead.dev/credential: "true"`.

    Where the Secret has the annotation `fairlead.dev/hosts` (comma-separated), its value goes to those places only:
    `tools.example.com` (https, any port), `tools.example.com:8443`, `https://tools.example.com:8443`, or
    `http://tools.example.com:8080`, without which it is sent in clear to Services of the cluster and loopback alone.
    """

    atomic: ClassVar[bool] = True

    name: ObjectName
    """Name of the Secret."""
    key: SecretKey = "token"
    """Key within its data."""


class BearerAuth(Model):
    """Sent as `Authorization: Bearer VALUE`; also the place for an API key."""

    secret_ref: CredentialSource
    """Where the token stands."""


class HeaderAuth(Model):
    """Sent in a header of another name, its value as it stands in the Secret."""

    name: Annotated[str, Field(min_length=1, max_length=128), HEADER_NAME]
    """Name of the header, such as `X-API-Key`."""
    secret_ref: CredentialSource
    """Where the value stands."""


class Auth(Model):
    """How requests to the server are authenticated: exactly one of its members."""

    bearer: BearerAuth | None = None
    """A token or API key in the `Authorization` header."""
    header: HeaderAuth | None = None
    """A value in a header of a given name."""

    guards: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            cel="[has(self.bearer), has(self.header)].filter(x, x).size() == 1",
            message="auth: set exactly one of bearer, header",
            holds=lambda auth: (auth.bearer is None) != (auth.header is None),
        ),
    )

    @property
    def secret_ref(self) -> CredentialSource:
        """The Secret behind whichever member is set."""
        member = self.bearer or self.header
        if member is None:  # the rule above refuses it; a model built without validation may still arrive here
            raise ValueError("auth has no member")
        return member.secret_ref
