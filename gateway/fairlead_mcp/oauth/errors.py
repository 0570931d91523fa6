"""The exception for a failure to obtain an access token, and its causes."""

from __future__ import annotations

from typing import Final

from fairlead_mcp.errors import McpError

UNREACHABLE: Final = "unreachable"
"""No connection to the token endpoint, or to the server's or issuer's metadata."""
TIMEOUT: Final = "timeout"
"""The token endpoint did not answer in time, or no connection to it was free in time."""
PROVIDER_ERROR: Final = "provider_error"
"""The token endpoint failed (5xx), or limits the rate of requests (429)."""
BAD_ANSWER: Final = "bad_answer"
"""The answer is not a valid answer of a token endpoint."""
DISCOVERY: Final = "discovery"
"""Metadata is missing, unusable or of another origin."""
ISSUER_MISMATCH: Final = "issuer_mismatch"
"""Metadata names another issuer than the client's."""
HOST_NOT_ALLOWED: Final = "host_not_allowed"
"""The client's secret may not be sent to the token endpoint's host, or Fairlead may not connect to the address of the
token endpoint or metadata.
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
"""The user's token is not accepted, for example because it has expired or is for another audience."""
INVALID_SCOPE: Final = "invalid_scope"
INVALID_TARGET: Final = "invalid_target"
"""`resource` or `audience` is unknown to the authorization server (RFC 8693 section 2.2.2)."""
INTERACTION_REQUIRED: Final = "interaction_required"
"""The user has to consent or authenticate again, in a browser."""
SIGN_IN_REQUIRED: Final = "sign_in_required"
"""The user has not consented yet, or the consent has ended."""
GRANT_UNREADABLE: Final = "grant_unreadable"
"""The user's grant cannot be decrypted: its key is lost, or the grant was changed."""
GRANT_STORE: Final = "grant_store"
"""The store of grants is unavailable, full or busy. Another sign-in would not help."""
ACCESS_DENIED: Final = "access_denied"
NO_SUBJECT_TOKEN: Final = "no_subject_token"  # noqa: S105  # the name of a cause, not a secret
"""The caller has no token that can be exchanged."""
SUBJECT_TOKEN_EXPIRED: Final = "subject_token_expired"  # noqa: S105  # likewise
INSUFFICIENT_SCOPE: Final = "insufficient_scope"
"""The server requires a token with more scopes, but does not say which, or names scopes that the authorization server
does not grant to the user.
"""
TOKEN_REFUSED: Final = "token_refused"  # noqa: S105  # likewise
"""The server refuses every token that the authorization server issues."""
CLOSED: Final = "closed"
"""The server was removed, or its settings changed, in the meantime."""

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
"""All values of `GrantFailed.cause`, which is a label of a metric."""
_CAUSES_FOR_EVERYBODY: Final = frozenset(
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
    """No access token could be obtained. The message says what to do, and contains neither secrets nor tokens.

    `cause` is one of GRANT_CAUSES.
    """

    reason = "GrantFailed"

    def __init__(
        self, message: str, *, cause: str, claims: str = "", impersonal: str = "", sign_in_url: str = ""
    ) -> None:
        """Create a failure.

        Args:
            claims: JSON that Microsoft Entra requires in the next authorization request; or empty.
            impersonal: The message without text of the authorization server that may be about a user; empty: the
                message contains no such text.
            sign_in_url: Page of the gateway on which the caller can sign in to the server; or empty.
        """
        super().__init__(message)
        self.cause = cause
        self.claims = claims
        self.impersonal = impersonal or message
        """Message that may be shown to others than the caller."""
        self.sign_in_url = sign_in_url

    @property
    def for_everybody(self) -> bool:
        """Whether the cause affects all users, so that no grant of another user would succeed."""
        return self.cause in _CAUSES_FOR_EVERYBODY

    def at_server(self, server: str) -> GrantFailed:
        """Copy the exception, with a message that names the server."""
        if self.cause == SIGN_IN_REQUIRED and server in str(self):
            return self.copy()
        return self._with_message(f"no access token could be obtained for a call of the server {server}: {self}")

    def in_step(self, step: str) -> GrantFailed:
        """Copy the exception, with a message that names the step of the grant in which it happened."""
        copy = self._with_message(f"{step}: {self}")
        copy.impersonal = f"{step}: {self.impersonal}"
        return copy

    def copy(self) -> GrantFailed:
        """Copy the exception without its traceback, to raise it for another caller."""
        return self._with_message(str(self))

    def _with_message(self, message: str) -> GrantFailed:
        return GrantFailed(
            message,
            cause=self.cause,
            claims=self.claims,
            impersonal=self.impersonal,
            sign_in_url=self.sign_in_url,
        )
