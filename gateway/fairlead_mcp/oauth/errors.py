"""Failure to obtain an access token."""

from __future__ import annotations

from typing import Final

from fairlead_mcp.errors import McpError

UNREACHABLE: Final = "unreachable"
"""No connection to the token endpoint, or to the server's or issuer's metadata."""
TIMEOUT: Final = "timeout"
"""The token endpoint did not answer in time, or no connection to it became free."""
PROVIDER_ERROR: Final = "provider_error"
"""The token endpoint failed (5xx), or asks to come later (429)."""
BAD_ANSWER: Final = "bad_answer"
"""The answer is not that of a token endpoint."""
DISCOVERY: Final = "discovery"
"""Metadata is missing, unusable or of another origin."""
ISSUER_MISMATCH: Final = "issuer_mismatch"
"""Metadata names another issuer than the client's."""
HOST_NOT_ALLOWED: Final = "host_not_allowed"
"""The client's secret may not be sent to the token endpoint's host, or Fairlead may not connect to the address of the
token endpoint or of the metadata.
"""
ISSUER_NOT_ALLOWED: Final = "issuer_not_allowed"
"""The caller's token may not be sent to the authorization server of the settings."""
CONFIGURATION: Final = "configuration"
"""Settings or the private key are unusable."""
INVALID_CLIENT: Final = "invalid_client"
UNAUTHORIZED_CLIENT: Final = "unauthorized_client"
UNSUPPORTED_GRANT_TYPE: Final = "unsupported_grant_type"
INVALID_REQUEST: Final = "invalid_request"
INVALID_GRANT: Final = "invalid_grant"
"""The person's token is not accepted, for example because it has expired or is for another audience."""
INVALID_SCOPE: Final = "invalid_scope"
INVALID_TARGET: Final = "invalid_target"
"""`resource` or `audience` is unknown to the authorization server (RFC 8693 section 2.2.2)."""
INTERACTION_REQUIRED: Final = "interaction_required"
"""The person has to consent or to authenticate again, which needs a browser."""
SIGN_IN_REQUIRED: Final = "sign_in_required"
"""The person has not consented yet, or the consent has ended."""
GRANT_UNREADABLE: Final = "grant_unreadable"
"""The person's grant cannot be opened: its key is lost, or it was changed."""
GRANT_STORE: Final = "grant_store"
"""The store of grants is away, full or busy, which a sign-in does not help."""
ACCESS_DENIED: Final = "access_denied"
NO_SUBJECT_TOKEN: Final = "no_subject_token"  # noqa: S105  # the name of a cause, not a secret
"""The caller has no token that can be exchanged."""
SUBJECT_TOKEN_EXPIRED: Final = "subject_token_expired"  # noqa: S105  # likewise
INSUFFICIENT_SCOPE: Final = "insufficient_scope"
"""The server wants a token with more scopes, but does not say which, or names scopes that the authorization server does
not grant to the person.
"""
TOKEN_REFUSED: Final = "token_refused"  # noqa: S105  # likewise
"""The server refuses each token that the authorization server gives."""
CLOSED: Final = "closed"
"""The server was removed or its settings changed meanwhile."""

GRANT_CAUSES: Final = frozenset(
    {
        UNREACHABLE,
        TIMEOUT,
        PROVIDER_ERROR,
        BAD_ANSWER,
        DISCOVERY,
        ISSUER_MISMATCH,
        HOST_NOT_ALLOWED,
        ISSUER_NOT_ALLOWED,
        CONFIGURATION,
        INVALID_CLIENT,
        UNAUTHORIZED_CLIENT,
        UNSUPPORTED_GRANT_TYPE,
        INVALID_REQUEST,
        INVALID_GRANT,
        INVALID_SCOPE,
        INVALID_TARGET,
        INTERACTION_REQUIRED,
        SIGN_IN_REQUIRED,
        GRANT_UNREADABLE,
        GRANT_STORE,
        ACCESS_DENIED,
        NO_SUBJECT_TOKEN,
        SUBJECT_TOKEN_EXPIRED,
        INSUFFICIENT_SCOPE,
        TOKEN_REFUSED,
        CLOSED,
    }
)
"""All values of `GrantFailed.cause`: labels of a metric."""
_FOR_EVERYBODY: Final = frozenset(
    {
        UNREACHABLE,
        DISCOVERY,
        ISSUER_MISMATCH,
        HOST_NOT_ALLOWED,
        CONFIGURATION,
        INVALID_CLIENT,
        UNAUTHORIZED_CLIENT,
        UNSUPPORTED_GRANT_TYPE,
    }
)


class GrantFailed(McpError):
    """No access token could be obtained. The message says what to do, and has neither secrets nor tokens.

    `cause` is one of GRANT_CAUSES.
    """

    reason = "GrantFailed"

    def __init__(
        self, message: str, *, cause: str, claims: str = "", impersonal: str = "", sign_in_url: str = ""
    ) -> None:
        """`claims`: JSON that Microsoft Entra asks the client to pass on in a new authorization request; or empty.

        `impersonal`: the message without words of the authorization server that may be about a person; empty: the
        message has none.

        `sign_in_url`: page of the gateway at which the caller can sign in at the server; or empty.
        """
        super().__init__(message)
        self.cause = cause
        self.claims = claims
        self.impersonal = impersonal or message
        """Message that others than the caller may read."""
        self.sign_in_url = sign_in_url

    @property
    def for_everybody(self) -> bool:
        """Whether the cause is the same for all users, so that no grant of another person would succeed."""
        return self.cause in _FOR_EVERYBODY

    def at_server(self, server: str) -> GrantFailed:
        """Copy the exception with the server's name, for a message that stands alone."""
        if self.cause == SIGN_IN_REQUIRED and server in str(self):
            return self.again()
        return self._copy(f"there is no access token for a call of the server {server}: {self}")

    def in_step(self, step: str) -> GrantFailed:
        """Copy the exception, with the step of a grant that it happened in."""
        copy = self._copy(f"{step}: {self}")
        copy.impersonal = f"{step}: {self.impersonal}"
        return copy

    def again(self) -> GrantFailed:
        """Copy the exception, without its traceback, to raise it for another caller."""
        return self._copy(str(self))

    def _copy(self, message: str) -> GrantFailed:
        return GrantFailed(
            message,
            cause=self.cause,
            claims=self.claims,
            impersonal=self.impersonal,
            sign_in_url=self.sign_in_url,
        )
