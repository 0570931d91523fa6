"""Validation rules of `spec.auth`: URLs, scopes and parameters of OAuth, and what goes together.

Each rule has the CEL for the API server, the message, and the same condition in Python. The Python predicates take the
models untyped, because those import this module. This module has no I/O.
"""

from __future__ import annotations

import re
from typing import Any, Final

from fairlead_api.documents.oauth import STANDARD_PARAMETERS
from fairlead_api.patterns import PORT
from fairlead_api.v1alpha1.mcpserver.spec_rules import HOST, matcher
from fairlead_api.v1alpha1.rules import ValidationRule

_INTERNAL: Final = (
    r"(localhost|127(\.[0-9]{1,3}){3}|\[::1\]|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?\.svc(\.cluster\.local)?)"
    rf"(:{PORT})?"
)
"""Hosts of this machine or cluster, to which secrets may go without TLS."""
_ORIGIN: Final = rf"(https://{HOST}|http://{_INTERNAL})"
_ISSUER: Final = rf"^{_ORIGIN}(/[!$-;=@-Z_a-z~]*)?$"
_TOKEN_URL: Final = rf"^{_ORIGIN}([/?][!$-;=?-Z_a-z~]*)?$"
_RESOURCE: Final = rf"^https?://{HOST}(/[!$-;=@-Z_a-z~]*)?$"
_SCOPE: Final = r"^[!#-\[\]-~]+$"
"""RFC 6749 section 3.3, `scope-token`."""
_PARAMETER: Final = r"^[A-Za-z0-9._:-]{1,64}$"
_ANY_TENANT: Final = r"^https?://[^/]+(/?|/(common|organizations|consumers)(/.*)?)$"
"""Endpoints of Microsoft Entra for users of any tenant, and URLs without a tenant."""

ISSUER: Final = ValidationRule(
    cel=f"self.matches(r'{_ISSUER}')",
    message="must be an https URL without user name, query or fragment, such as https://login.example.com; http is for "
    "localhost and Services (NAME.NAMESPACE.svc) only",
    holds=matcher(_ISSUER),
)
TOKEN_URL: Final = ValidationRule(
    cel=f"self.matches(r'{_TOKEN_URL}')",
    message="must be an https URL without user name or fragment, such as https://login.example.com/token; http is for "
    "localhost and Services (NAME.NAMESPACE.svc) only",
    holds=matcher(_TOKEN_URL),
)
AUTHORIZATION_URL: Final = ValidationRule(
    cel=TOKEN_URL.cel,
    message="must be an https URL without user name or fragment, such as https://login.example.com/authorize; http is "
    "for localhost and Services (NAME.NAMESPACE.svc) only",
    holds=TOKEN_URL.holds,
)
RESOURCE: Final = ValidationRule(
    cel=f"self.matches(r'{_RESOURCE}')",
    message="must be an http or https URL without user name, query or fragment, such as https://tools.example.com/mcp",
    holds=matcher(_RESOURCE),
)
SCOPE: Final = ValidationRule(
    cel=f"self.matches(r'{_SCOPE}')",
    message="must be one scope, without blanks, quotes and backslashes: write several scopes as several items",
    holds=matcher(_SCOPE),
)
PARAMETERS: Final = ValidationRule(
    cel=f"self.all(name, name.matches(r'{_PARAMETER}') && !(name.lowerAscii() in {sorted(STANDARD_PARAMETERS)!r}))",
    message="must not name standard parameters of token requests, such as scope or client_id, which have fields of "
    "their own; names have up to 64 letters, digits, ., _, : and -",
    holds=lambda parameters: all(
        re.fullmatch(_PARAMETER, name) is not None and name.lower() not in STANDARD_PARAMETERS for name in parameters
    ),
)
ENDPOINT: Final = ValidationRule(
    cel="has(self.issuer) || has(self.tokenURL)",
    message="set issuer, the authorization server at which the client is registered, or tokenURL, its token endpoint",
    holds=lambda client: client.issuer is not None or client.token_url is not None,
)
CLIENT_SECRET: Final = ValidationRule(
    cel="has(self.secretRef) != (has(self.clientAuthentication) && self.clientAuthentication == 'none')",
    message="secretRef names the Secret with the client's secret or private key: set it, or set clientAuthentication: "
    "none for a client without one",
    holds=lambda client: (client.secret_ref is not None) != (client.client_authentication == "none"),
)
CONSENT_CLIENT: Final = ValidationRule(
    cel="!has(self.secretRef) || has(self.clientID)",
    message="secretRef is the secret of a registered client: set clientID too, or remove secretRef, and Fairlead "
    "registers itself",
    holds=lambda client: client.secret_ref is None or client.client_id is not None,
)
CONSENT_SECRET: Final = ValidationRule(
    cel="!has(self.clientAuthentication) || has(self.secretRef) == (self.clientAuthentication != 'none')",
    message="clientAuthentication none is for a client without secretRef, any other is for a client with secretRef; "
    "without clientAuthentication, secretRef decides",
    holds=lambda client: (
        client.client_authentication is None
        or (client.secret_ref is not None) == (client.client_authentication != "none")
    ),
)
CONSENT_SECRET_ISSUER: Final = ValidationRule(
    cel="!has(self.secretRef) || has(self.issuer) || has(self.tokenURL)",
    message="a client with a secret needs issuer, the authorization server to which the secret may be sent, or "
    "authorizationURL and tokenURL",
    holds=lambda client: client.secret_ref is None or client.issuer is not None or client.token_url is not None,
)
CONSENT_ENDPOINTS: Final = ValidationRule(
    cel="has(self.authorizationURL) == has(self.tokenURL) && (!has(self.tokenURL) || has(self.clientID))",
    message="set authorizationURL and tokenURL together, with clientID; without them, the endpoints of the issuer are "
    "discovered",
    holds=lambda client: (
        (client.authorization_url is None) == (client.token_url is None)
        and (client.token_url is None or client.client_id is not None)
    ),
)


def _has_scopes_and_tenant(client: Any) -> bool:
    urls = [url for url in (client.issuer, client.token_url) if url is not None]
    return bool(client.scopes) and not any(re.fullmatch(_ANY_TENANT, url) for url in urls)


ENTRA_TENANT: Final = ValidationRule(
    cel="!has(self.profile) || self.profile != 'EntraOnBehalfOf' || (has(self.scopes) && size(self.scopes) > 0 && "
    + " && ".join(f"(!has(self.{url}) || !self.{url}.matches(r'{_ANY_TENANT}'))" for url in ("issuer", "tokenURL"))
    + ")",
    message="profile EntraOnBehalfOf needs scopes, such as api://tools/.default, and the issuer or token endpoint of "
    "one tenant, such as https://login.microsoftonline.com/TENANT/v2.0",
    holds=lambda client: client.profile != "EntraOnBehalfOf" or _has_scopes_and_tenant(client),
)
ENTRA_REQUEST: Final = ValidationRule(
    cel="!has(self.profile) || self.profile != 'EntraOnBehalfOf' || (!has(self.audience) && "
    "!has(self.resource) && !has(self.subjectTokenType) && "
    "!(has(self.clientAuthentication) && self.clientAuthentication == 'none'))",
    message="profile EntraOnBehalfOf names the server in scopes and needs a client with a secret or private key: "
    "remove audience, resource, subjectTokenType and clientAuthentication: none",
    holds=lambda client: (
        client.profile != "EntraOnBehalfOf"
        or (
            client.audience is None
            and client.resource is None
            and client.subject_token_type is None
            and client.client_authentication != "none"
        )
    ),
)
ID_JAG_CLIENT: Final = ValidationRule(
    cel="(has(self.profile) && self.profile == 'IdJag') == has(self.resourceClient)",
    message="profile IdJag needs resourceClient, the client at the authorization server of the server: set both or "
    "neither",
    holds=lambda client: (client.profile == "IdJag") == (client.resource_client is not None),
)
ID_JAG_AUDIENCE: Final = ValidationRule(
    cel="!has(self.resourceClient) || !has(self.audience)",
    message="with profile IdJag, the audience is the authorization server of the server: remove audience, and set "
    "resourceClient.issuer if the server does not name it",
    holds=lambda client: client.resource_client is None or client.audience is None,
)
RESOURCE_CLIENT_ISSUER: Final = ValidationRule(
    cel="!has(self.secretRef) || has(self.issuer)",
    message="a client with a secret needs issuer, the authorization server to which the secret may be sent",
    holds=lambda client: client.secret_ref is None or client.issuer is not None,
)
