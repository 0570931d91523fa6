"""Validation of the authorization responses of an OpenID provider, which arrive through the browser. No I/O.

`error` and its description are untrusted: they are shortened, and pages show them as plain text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MAX_CODE: Final = 4096
"""Maximum length of an authorization code in characters."""
MAX_ERROR: Final = 64
MAX_DESCRIPTION: Final = 240
INTERACTION_ERRORS: Final = frozenset(
    {"login_required", "interaction_required", "account_selection_required", "consent_required"}
)
"""Errors for `prompt=none` that mean that the user has to interact (OpenID Connect Core 1.0 section 3.1.2.6)."""
_ADVICE: Final[Mapping[str, str]] = {
    "access_denied": "You or the provider declined. If you should have access, ask its administrator to let you use "
    "this client, then sign in again.",
    "invalid_scope": "FAIRLEAD_CONSOLE_SCOPES names a scope that the provider does not give to this client.",
    "unauthorized_client": "The provider must allow the authorization code flow for FAIRLEAD_CONSOLE_CLIENT_ID.",
    "unsupported_response_type": "The provider must allow the authorization code flow for FAIRLEAD_CONSOLE_CLIENT_ID.",
    "invalid_grant": "The code was used already or has expired. Sign in again.",
    "invalid_client": "FAIRLEAD_CONSOLE_CLIENT_ID or FAIRLEAD_CONSOLE_CLIENT_SECRET differs from the client that is "
    "registered at the provider.",
    "invalid_target": "The provider has no resource FAIRLEAD_PUBLIC_URL: set `audiences` of the issuer instead.",
    "server_error": "The provider failed. Try again in a moment.",
    "temporarily_unavailable": "The provider is busy. Try again in a moment.",
}
_DEFAULT_ADVICE: Final = "Try again; if the error persists, show this message to an administrator of the gateway."


class SignInFault(Exception):
    """A sign-in failed. The message says why and what to do; `status` is the HTTP status of the page."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def code_of(query: Mapping[str, str], provider: str, issuer: str, *, always_sends_iss: bool, silent: bool) -> str:
    """Return the authorization code of a redirect to the console. Raises SignInFault.

    `always_sends_iss` says that the provider sends `iss` in all responses (RFC 9207), so that a response without `iss`
    is refused. `silent` says that the request had `prompt=none`.
    """
    iss = query.get("iss")
    if iss != issuer and (iss is not None or always_sends_iss):
        raise SignInFault(f"The answer is not from {provider}. Sign in again, from this page.")
    if "error" in query:
        error = query["error"]
        if silent and error in INTERACTION_ERRORS:
            raise SignInFault(f"Your session at {provider} has ended. Sign in again.", 401)
        raise SignInFault(refusal(provider, error, query.get("error_description", "")))
    code = query.get("code", "")
    if not code or len(code) > MAX_CODE or not (code.isascii() and code.isprintable()):
        raise SignInFault(f"The answer of {provider} has no code. Sign in again.")
    return code


def refusal(provider: str, error: str, description: str) -> str:
    """Make the message for a user whom the provider did not sign in."""
    words = f" (“{shorten(description, MAX_DESCRIPTION)}”)" if description else ""
    return f"{provider} did not sign you in: {shorten(error, MAX_ERROR)}{words}. {_ADVICE.get(error, _DEFAULT_ADVICE)}"


def shorten(text: str, limit: int) -> str:
    """Shorten an untrusted text to `limit` printable characters on one line."""
    line = "".join(letter if letter.isprintable() else " " for letter in text[: 2 * limit])
    words = " ".join(line.split())
    return words if len(words) <= limit and len(text) <= 2 * limit else words[: limit - 1] + "…"
