"""Credentials of the security schemes of an OpenAPI document, each from a Secret or `spec.auth`. No I/O."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Final

from pydantic import Field

from fairlead_api.v1alpha1.common import Model
from fairlead_api.v1alpha1.mcpserver.auth import BearerAuth, CredentialSource, HeaderAuth
from fairlead_api.v1alpha1.rules import ValidationRule

_COOKIE: Final = r"^[A-Za-z0-9!#$%&*+.^_|~-]+$"

COOKIE_NAME: Final = ValidationRule(
    cel=f"self.matches(r'{_COOKIE}')",
    message="must be the name of a cookie, such as session: letters, digits and some signs, without blanks, = and ;",
    holds=lambda name: re.fullmatch(_COOKIE, name) is not None,
)


class QueryAuth(Model):
    """Credential that is sent as a parameter of the query."""

    name: str = Field(min_length=1, max_length=128)
    """Name of the parameter, such as `api_key`."""
    secret_ref: CredentialSource
    """Secret with the value."""


class CookieAuth(Model):
    """Credential that is sent as a cookie."""

    name: Annotated[str, Field(min_length=1, max_length=128), COOKIE_NAME]
    """Name of the cookie."""
    secret_ref: CredentialSource
    """Secret with the value."""


class SchemeCredential(Model):
    """How requests satisfy one security scheme: exactly one member is set."""

    bearer: BearerAuth | None = None
    """A token in the `Authorization` header, for schemes of the types `http` with `bearer`, `oauth2` and
    `openIdConnect`."""
    header: HeaderAuth | None = None
    """A value in a named header, for `apiKey` in `header`. For `http` with `basic`, use this member, too, with the name
    `Authorization`."""
    query: QueryAuth | None = None
    """A value in the query, for `apiKey` in `query`."""
    cookie: CookieAuth | None = None
    """A value in a cookie, for `apiKey` in `cookie`."""
    auth: bool = False
    """`true`: `spec.auth` is the credential of this scheme, so that operations that need it together with others get
    all of them. OAuth grants, and keys that users enter, can be configured in `spec.auth` only, not in the other
    members."""

    guards: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            cel="[has(self.bearer), has(self.header), has(self.query), has(self.cookie), has(self.auth) && self.auth]"
            ".filter(x, x).size() == 1",
            message="credentials: set exactly one of bearer, header, query, cookie, auth for each security scheme; "
            "clientCredentials, tokenExchange, userConsent and userKey go into spec.auth, and auth: true names the "
            "scheme that they are for",
            holds=lambda scheme: [*scheme.members, scheme.auth or None].count(None) == 4,
        ),
    )

    @property
    def members(self) -> tuple[BearerAuth | HeaderAuth | QueryAuth | CookieAuth | None, ...]:
        """The members with a value from a Secret, of which at most one is set."""
        return self.bearer, self.header, self.query, self.cookie

    @property
    def secret_ref(self) -> CredentialSource | None:
        """The Secret with the value; None for a scheme that `spec.auth` is for."""
        return next((member.secret_ref for member in self.members if member is not None), None)
