"""Judges the answers that an OpenID provider gives through a browser. Pure module.

`error` and its description are anybody's text: they are shortened, and pages show them as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MAX_CODE: Final = 4096
"""Characters of an authorization code."""
MAX_ERROR: Final = 64
MAX_DESCRIPTION: Final = 240
ASK_A_PERSON: Final = frozenset(
    {"login_required", "interaction_required", "account_selection_required", "consent_required"}
)
"""Errors of a provider that was asked to say nothing to the person (OpenID Connect Core 1.0 section 3.1.2.6)."""
_ADVICE: Final[Mapping[str, str]] = {
    "access_denied": "You or the provider declined. If you should have access, ask its administrator to let you use "
    "this client, then sign in again.",
    "invalid_scope": "FAIRLEAD_CONSOLE_SCOPES names a scope that the provider does not give to this client.",
    "unauthorized_client": "The provider must allow the authorization code flow for FAIRLEAD_CONSOLE_CLIENT_ID.",
    "unsupported_response_type": "The provider must allow the authorization code flow for FAIRLEAD_CONSOLE_CLIENT_ID.",
    "invalid_grant": "The code was used already, or it took too long. Sign in again.",
    "invalid_client": "FAIRLEAD_CONSOLE_CLIENT_ID or FAIRLEAD_CONSOLE_CLIENT_SECRET is not what the provider has.",
    "invalid_target": "FAIRLEAD_PUBLIC_URL is not a resource that the provider knows: name `audiences` of the issuer "
    "instead.",
    "server_error": "The provider failed. Try again in a moment.",
    "temporarily_unavailable": "The provider is busy. Try again in a moment.",
}
_OTHER: Final = "Try again; if it stays so, show this to an administrator of the gateway."


class SignInFault(Exception):
    """Nobody was signed in. The message says why and what to do; `status` is that of the page."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def code_of(query: Mapping[str, str], provider: str, issuer: str, *, names_itself: bool, silent: bool) -> str:
    """The authorization code of a redirect to the console. Raises SignInFault.

    `names_itself`: the provider says that it puts `iss` into each answer (RFC 9207), so that one without it is
    another's. `silent`: it was asked to say nothing to the person.
    """
    iss = query.get("iss")
    if iss != issuer and (iss is not None or names_itself):
        raise SignInFault(f"The answer is not from {provider}. Sign in again, from this page.")
    if "error" in query:
        error = query["error"]
        if silent and error in ASK_A_PERSON:
            raise SignInFault(f"Your session at {provider} has ended. Sign in again.", 401)
        raise SignInFault(refusal(provider, error, query.get("error_description", "")))
    code = query.get("code", "")
    if not code or len(code) > MAX_CODE or not (code.isascii() and code.isprintable()):
        raise SignInFault(f"The answer of {provider} has no code. Sign in again.")
    return code


def refusal(provider: str, error: str, description: str) -> str:
    """Sentences for a person whom the provider did not sign in."""
    words = f" (“{shorten(description, MAX_DESCRIPTION)}”)" if description else ""
    return f"{provider} did not sign you in: {shorten(error, MAX_ERROR)}{words}. {_ADVICE.get(error, _OTHER)}"


def shorten(text: str, limit: int) -> str:
    """At most `limit` characters of foreign text, on one line and all of them printable."""
    line = "".join(letter if letter.isprintable() else " " for letter in text[: 2 * limit])
    words = " ".join(line.split())
    return words if len(words) <= limit and len(text) <= 2 * limit else words[: limit - 1] + "…"
