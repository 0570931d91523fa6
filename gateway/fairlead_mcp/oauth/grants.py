"""Builds the forms of token requests: client credentials (RFC 6749 section 4.4), token exchange (RFC 8693 section 2.1),
the on-behalf-of flow of Microsoft Entra, and the authorization code and refresh token of a user's consent (RFC 6749
sections 4.1.3 and 6). No I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import urlencode

from fairlead_api.documents.oauth import (
    CLIENT_CREDENTIALS,
    ENTRA_ON_BEHALF_OF,
    ID_JAG,
    STANDARD_PARAMETERS,
    TOKEN_EXCHANGE,
    USER_CONSENT,
    USER_KEY,
    OAuthSettings,
)
from fairlead_mcp.oauth.client_authentication import NONE
from fairlead_mcp.oauth.errors import CONFIGURATION, NO_SUBJECT_TOKEN, SUBJECT_TOKEN_EXPIRED, GrantFailed
from fairlead_mcp.oauth.subject import TokenSubject

ACCESS_TOKEN_TYPE: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105  # the name of a type
ID_TOKEN_TYPE: Final = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105  # likewise
JWT_TYPE: Final = "urn:ietf:params:oauth:token-type:jwt"
ID_JAG_TYPE: Final = "urn:ietf:params:oauth:token-type:id-jag"
_TOKEN_EXCHANGE_GRANT: Final = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105  # the name of a grant
_JWT_BEARER_GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"


def check_settings(settings: OAuthSettings) -> None:
    """Raise GrantFailed if the settings do not suffice for a token request."""
    problem = ""
    if settings.grant == USER_KEY:  # needs no authorization server
        return
    standard_names = sorted(name for name in settings.parameters if name.lower() in STANDARD_PARAMETERS)
    is_consent = settings.grant == USER_CONSENT
    has_no_secret = not settings.client_id or settings.client_authentication == NONE
    if settings.grant not in (CLIENT_CREDENTIALS, TOKEN_EXCHANGE, USER_CONSENT):
        problem = f"{settings.grant[:40]!r} is not a known grant"
    elif settings.profile not in ("", ENTRA_ON_BEHALF_OF, ID_JAG):
        problem = f"{settings.profile[:40]!r} is not a known profile"
    elif (settings.profile == ID_JAG) != (settings.resource_client is not None):
        problem = "set the profile IdJag and resourceClient together"
    elif is_consent and bool(settings.token_url) != bool(settings.authorization_url):
        problem = "set authorizationURL and tokenURL together"
    elif not settings.client_id and (not is_consent or settings.token_url):
        problem = "clientID is empty"
    elif not (settings.issuer or settings.token_url or (is_consent and has_no_secret)):
        problem = "set issuer or tokenURL"  # a secret is never sent to an authorization server that the server names
    elif standard_names:
        problem = f"parameters must not replace the standard parameter {standard_names[0][:40]}"
    elif settings.profile == ENTRA_ON_BEHALF_OF and (settings.resource or settings.audience or not settings.scopes):
        problem = "EntraOnBehalfOf needs scopes, such as api://APPLICATION/.default, and has no resource or audience"
    if problem:
        raise GrantFailed(f"the OAuth settings of the server cannot be used: {problem}", cause=CONFIGURATION)


def check_subject(settings: OAuthSettings, subject: TokenSubject, now: float) -> None:
    """Raise GrantFailed if the user has no token that can be exchanged. `now` is in seconds since the epoch."""
    if settings.grant != TOKEN_EXCHANGE:
        return
    if not subject.token:
        raise GrantFailed(
            "calls of the server need a token that is exchanged for the caller's own token, but this caller has none: "
            "sign in to the gateway with a token of your identity provider instead of a key",
            cause=NO_SUBJECT_TOKEN,
        )
    if subject.expires_at <= now:
        raise GrantFailed("your token has expired: sign in again", cause=SUBJECT_TOKEN_EXPIRED)


def session_token_type(settings: OAuthSettings) -> str:
    """Type of the provider's token that is exchanged for a caller who signed in at the gateway (RFC 8693 section 3).

    With IdJag, the default is the ID token, which all such providers accept
    (draft-ietf-oauth-identity-assertion-authz-grant section 4.3).
    """
    return settings.subject_token_type or (ID_TOKEN_TYPE if settings.profile == ID_JAG else ACCESS_TOKEN_TYPE)


def subject_token_type(settings: OAuthSettings, subject: TokenSubject) -> str:
    """Type of the subject token (RFC 8693 section 3)."""
    return subject.token_type or settings.subject_token_type or ACCESS_TOKEN_TYPE


def ordered_scopes(settings: OAuthSettings, other_scopes: Iterable[str]) -> tuple[str, ...]:
    """Scopes of a request: the scopes of the settings in their order, then the other scopes sorted."""
    return tuple(dict.fromkeys((*settings.scopes, *sorted(other_scopes))))


def token_form(
    settings: OAuthSettings, grant: Mapping[str, str], scopes: tuple[str, ...], client: Mapping[str, str]
) -> bytes:
    """Body of a token request. `grant` are the parameters of the grant, `client` those that authenticate the client.

    `requested_token_type` is omitted, because some authorization servers refuse an explicit value.
    """
    # with a consent, the parameters of the settings belong to the authorization request
    setting_parameters = {} if settings.grant == USER_CONSENT else settings.parameters
    parameters = {**setting_parameters, **grant, **client}
    if scopes:
        parameters["scope"] = " ".join(scopes)
    return urlencode(parameters).encode("ascii")


def grant_parameters(settings: OAuthSettings, subject: TokenSubject) -> dict[str, str]:
    """Parameters of client credentials and of token exchange."""
    if settings.grant == TOKEN_EXCHANGE and settings.profile == ENTRA_ON_BEHALF_OF:
        return {
            "grant_type": _JWT_BEARER_GRANT,
            "requested_token_use": "on_behalf_of",
            "assertion": subject.token,
        }
    target = {"resource": settings.resource, "audience": settings.audience}
    parameters = {name: value for name, value in target.items() if value}
    if settings.grant == TOKEN_EXCHANGE:
        return {
            "grant_type": _TOKEN_EXCHANGE_GRANT,
            "subject_token": subject.token,
            "subject_token_type": subject_token_type(settings, subject),
            **parameters,
        }
    return {"grant_type": "client_credentials", **parameters}


def assertion_parameters(settings: OAuthSettings, subject: TokenSubject, issuer: str, resource: str) -> dict[str, str]:
    """Parameters of an exchange for an assertion (draft-ietf-oauth-identity-assertion-authz-grant section 4.3)."""
    return {
        "grant_type": _TOKEN_EXCHANGE_GRANT,
        "requested_token_type": ID_JAG_TYPE,
        "subject_token": subject.token,
        "subject_token_type": subject_token_type(settings, subject),
        "audience": issuer,
        "resource": resource,
    }


def redemption_parameters(assertion: str) -> dict[str, str]:
    """Parameters that redeem an assertion (RFC 7523 section 2.1)."""
    return {"grant_type": _JWT_BEARER_GRANT, "assertion": assertion}


def code_parameters(code: str, verifier: str, redirect_uri: str, resource: str) -> dict[str, str]:
    """Parameters that redeem an authorization code (RFC 6749 section 4.1.3, RFC 7636 section 4.5)."""
    parameters = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirect_uri,
        "code_verifier": verifier,
    }
    return {**parameters, "resource": resource} if resource else parameters


def refresh_parameters(refresh_token: str, resource: str) -> dict[str, str]:
    """Parameters that renew an access token, with the scopes to which the user consented (RFC 6749 section 6)."""
    parameters = {"grant_type": "refresh_token", "refresh_token": refresh_token}
    return {**parameters, "resource": resource} if resource else parameters
