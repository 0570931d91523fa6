"""Maps the errors of token endpoints to causes and remedies (RFC 6749 section 5.2, RFC 8693 section 2.2.2, AADSTS codes
of Microsoft Entra). No I/O.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from fairlead_api.documents.oauth import CLIENT_CREDENTIALS, TOKEN_EXCHANGE, USER_CONSENT
from fairlead_mcp.oauth.errors import (
    ACCESS_DENIED,
    BAD_ANSWER,
    INTERACTION_REQUIRED,
    INVALID_CLIENT,
    INVALID_GRANT,
    INVALID_REQUEST,
    INVALID_SCOPE,
    INVALID_TARGET,
    PROVIDER_ERROR,
    UNAUTHORIZED_CLIENT,
    UNSUPPORTED_GRANT_TYPE,
)

ASSERTION_STEP: Final = "assertion"
"""First request of the profile IdJag, at the identity provider."""
REDEMPTION_STEP: Final = "redemption"
"""Second request of the profile IdJag, at the authorization server of the MCP server."""


class RefusalAdvice(NamedTuple):
    """Cause of a refusal, and a clause that says what to do."""

    cause: str
    sentence: str

    @property
    def about_client(self) -> bool:
        return self.cause == INVALID_CLIENT

    @property
    def interaction(self) -> bool:
        return self.cause == INTERACTION_REQUIRED


_SIGN_IN: Final = "sign in again; if that does not help, have the token issued with this gateway as its audience"
_CONSENT: Final = (
    "the person or an administrator first has to consent to this client's access, by signing in to it in a browser"
)
_BUSY: Final = RefusalAdvice(PROVIDER_ERROR, "the authorization server failed or is busy: try again in a moment")
_MALFORMED: Final = RefusalAdvice(
    INVALID_REQUEST,
    "the person's token is not accepted, or a parameter is: sign in again, then compare subjectTokenType, resource, "
    "audience and parameters with the authorization server's documentation",
)
_NOT_AN_ENDPOINT: Final = RefusalAdvice(
    BAD_ANSWER, "this is not the answer of a token endpoint: check tokenURL and the authorization server"
)
_CLIENT: Final = RefusalAdvice(
    INVALID_CLIENT, "compare clientID, secretRef and clientAuthentication with the client's registration"
)
_SCOPE: Final = RefusalAdvice(
    INVALID_SCOPE, "give the client these scopes at the authorization server, or correct scopes"
)
_TARGET: Final = RefusalAdvice(
    INVALID_TARGET, "correct resource or audience, or register it at the authorization server for this client"
)
_INTERACTION: Final = RefusalAdvice(INTERACTION_REQUIRED, _CONSENT)
_BY_ERROR: Final[Mapping[str, RefusalAdvice]] = MappingProxyType(
    {
        "invalid_client": _CLIENT,
        "unauthorized_client": RefusalAdvice(
            UNAUTHORIZED_CLIENT, "allow the client to use this grant at the authorization server"
        ),
        "unsupported_grant_type": RefusalAdvice(
            UNSUPPORTED_GRANT_TYPE, "enable this grant at the authorization server, or correct tokenURL"
        ),
        "invalid_grant": RefusalAdvice(INVALID_GRANT, f"the person's token is not accepted: {_SIGN_IN}"),
        "invalid_token": RefusalAdvice(INVALID_GRANT, f"the person's token is not accepted: {_SIGN_IN}"),
        "invalid_request": _MALFORMED,
        "invalid_scope": _SCOPE,
        "invalid_target": _TARGET,
        "interaction_required": _INTERACTION,
        "consent_required": _INTERACTION,
        "login_required": _INTERACTION,
        "access_denied": RefusalAdvice(
            ACCESS_DENIED, "give the person, or this client, access to the server at the authorization server"
        ),
        "temporarily_unavailable": _BUSY,
        "server_error": _BUSY,
        "slow_down": _BUSY,
    }
)
_CHECK_CLIENT: Final = (
    "compare clientID, scopes, resource, audience and parameters with the client's registration at the authorization "
    "server"
)
_WITHOUT_PERSON: Final[Mapping[str, RefusalAdvice]] = MappingProxyType(
    {
        "invalid_grant": RefusalAdvice(INVALID_GRANT, _CHECK_CLIENT),
        "invalid_token": RefusalAdvice(INVALID_GRANT, _CHECK_CLIENT),
        "invalid_request": RefusalAdvice(INVALID_REQUEST, _CHECK_CLIENT),
    }
)
"""Remedies for client credentials, for which nobody can sign in again."""
_ENDED_CONSENT: Final = RefusalAdvice(INVALID_GRANT, "the sign-in has expired or was ended: sign in again")
_BY_CONSENT: Final[Mapping[str, RefusalAdvice]] = MappingProxyType(
    {
        "invalid_grant": _ENDED_CONSENT,
        "invalid_token": _ENDED_CONSENT,
        "invalid_request": RefusalAdvice(INVALID_REQUEST, _CHECK_CLIENT),
        "access_denied": RefusalAdvice(
            ACCESS_DENIED, "the sign-in was declined, or the account may not use this server: sign in with another one"
        ),
        "invalid_target": RefusalAdvice(
            INVALID_TARGET,
            "it issues no tokens for this server: set the server's resource to the identifier that is registered there",
        ),
    }
)
"""Remedies for the consent of users."""
_ASSERTION: Final[Mapping[str, RefusalAdvice]] = MappingProxyType(
    {
        "invalid_target": RefusalAdvice(
            INVALID_TARGET,
            "allow the provider to issue assertions for the server's authorization server (resourceClient.issuer) to "
            "this client and the person",
        ),
        "invalid_request": RefusalAdvice(
            INVALID_REQUEST,
            "the person's token is not accepted, or the provider issues no assertions (ID-JAG): sign in again, then "
            "compare subjectTokenType, resource and parameters with the provider's documentation",
        ),
    }
)
"""Remedies for the request for an assertion."""
_UNTRUSTED: Final = (
    "the assertion is not accepted: configure this authorization server to trust the identity provider (issuer), and "
    "to accept its assertions for the client in resourceClient"
)
_REDEMPTION: Final[Mapping[str, RefusalAdvice]] = MappingProxyType(
    {
        "invalid_client": RefusalAdvice(
            INVALID_CLIENT,
            "compare clientID, secretRef and clientAuthentication of resourceClient with the client's registration "
            "there",
        ),
        "unauthorized_client": RefusalAdvice(
            UNAUTHORIZED_CLIENT, "allow the client in resourceClient to exchange assertions (ID-JAG) there"
        ),
        "unsupported_grant_type": RefusalAdvice(
            UNSUPPORTED_GRANT_TYPE,
            "configure this authorization server to accept assertions of the identity provider (ID-JAG), or correct "
            "resourceClient.issuer",
        ),
        "invalid_grant": RefusalAdvice(INVALID_GRANT, _UNTRUSTED),
        "invalid_token": RefusalAdvice(INVALID_GRANT, _UNTRUSTED),
        "invalid_request": RefusalAdvice(INVALID_REQUEST, _UNTRUSTED),
        "invalid_scope": RefusalAdvice(
            INVALID_SCOPE,
            "configure the provider to put these scopes into its assertions, and give them to the client in "
            "resourceClient, or correct scopes",
        ),
        "invalid_target": RefusalAdvice(
            INVALID_TARGET, "correct the server's resource: this authorization server issues no tokens for it"
        ),
    }
)
"""Remedies for the redemption of an assertion, for which another sign-in does not help."""
_BY_GRANT: Final[Mapping[str, Mapping[str, RefusalAdvice]]] = MappingProxyType(
    {
        CLIENT_CREDENTIALS: _WITHOUT_PERSON,
        USER_CONSENT: _BY_CONSENT,
        ASSERTION_STEP: _ASSERTION,
        REDEMPTION_STEP: _REDEMPTION,
    }
)
"""Remedies that replace the remedies of `_BY_ERROR`, by grant."""
_BY_ENTRA_CODE: Final[Mapping[int, RefusalAdvice]] = MappingProxyType(
    {
        50001: RefusalAdvice(INVALID_TARGET, "correct scopes: their application is not known in this tenant"),
        50013: RefusalAdvice(
            INVALID_GRANT, "the person's token must be an access token that Entra issued for this gateway's application"
        ),
        50076: RefusalAdvice(INTERACTION_REQUIRED, "the person has to sign in again with a second factor"),
        50079: RefusalAdvice(INTERACTION_REQUIRED, "the person has to register a second factor, then sign in again"),
        50105: RefusalAdvice(ACCESS_DENIED, "assign the person to the application in Entra"),
        50158: RefusalAdvice(INTERACTION_REQUIRED, "the person has to satisfy conditional access, by signing in again"),
        65001: RefusalAdvice(
            INTERACTION_REQUIRED, "an administrator has to grant consent for the scopes to the gateway's application"
        ),
        70011: _SCOPE,
        90002: RefusalAdvice(UNAUTHORIZED_CLIENT, "correct the tenant in issuer or tokenURL"),
        500011: RefusalAdvice(INVALID_TARGET, "correct scopes: their application is not known in this tenant"),
        500131: RefusalAdvice(
            INVALID_GRANT, "the person's token is for another application: its audience must be that of the clientID"
        ),
        500133: RefusalAdvice(INVALID_GRANT, "the person's token has expired: sign in again"),
        700016: RefusalAdvice(UNAUTHORIZED_CLIENT, "correct clientID: the tenant has no such application"),
        700027: RefusalAdvice(
            INVALID_CLIENT, "upload the certificate of the private key to the application, and put it beside the key"
        ),
        901002: RefusalAdvice(INVALID_TARGET, "remove resource: Entra uses scopes instead"),
        7000215: RefusalAdvice(INVALID_CLIENT, "the client secret is wrong: its value is needed, not its ID"),
        7000222: RefusalAdvice(INVALID_CLIENT, "the client secret has expired: make a new one"),
    }
)
_ENTRA_CODE: Final = re.compile(r"\bAADSTS([0-9]{4,8})\b")


def advise(
    status: int, error: str, description: str, codes: Sequence[Any], *, grant: str = TOKEN_EXCHANGE
) -> RefusalAdvice:
    """The cause and remedy for an error answer. `error` is empty if the answer does not comply with RFC 6749; `codes`
    are Entra's `error_codes`; `grant` is the grant in the settings, or ASSERTION_STEP or REDEMPTION_STEP.
    """
    match = _ENTRA_CODE.search(description[:200])
    numbers = [code for code in codes[:8] if isinstance(code, int)] + ([int(match[1])] if match else [])
    for number in numbers:
        if number in _BY_ENTRA_CODE:
            return _BY_ENTRA_CODE[number]
    remedies = {**_BY_ERROR, **_BY_GRANT.get(grant, {})}
    if error in remedies:
        return remedies[error]
    if status >= 500 or status == 429:
        return _BUSY
    if status == 401:
        return remedies["invalid_client"]
    return remedies["invalid_request"] if error else _NOT_AN_ENDPOINT
