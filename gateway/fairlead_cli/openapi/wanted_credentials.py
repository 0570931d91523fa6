"""Credentials that a document's operations need, and the field of a manifest for each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fairlead_openapi.compiling.report import CompiledDocument, SecurityScheme

_GRANTS: Final = frozenset({"oauth2", "openIdConnect"})
_MAX_SCHEMES: Final = 8
"""Maximum number of listed schemes."""


def credential_lines(compiled: CompiledDocument) -> Iterator[str]:
    """Sentences about the credentials that operations need; none if no operation needs a credential."""
    requirements = [tool.operation.security for tool in compiled.tools if tool.operation.security]
    requirements = [alternatives for alternatives in requirements if () not in alternatives]
    if not requirements:
        return
    yield (
        f"{len(requirements):,} of {len(compiled.tools):,} tools need a credential, which a manifest gives; the "
        "document's security schemes and the manifest's fields:"
    )
    names = dict.fromkeys(name for alternatives in requirements for names in alternatives for name in names)
    for name in list(names)[:_MAX_SCHEMES]:
        scheme = compiled.schemes.get(name)
        yield f"  {name}: {'not in components.securitySchemes' if scheme is None else _field(name, scheme)}"
    if len(names) > _MAX_SCHEMES:
        yield f"  and {len(names) - _MAX_SCHEMES} more"


def _field(name: str, scheme: SecurityScheme) -> str:
    """The scheme, and the field of `spec` that gives its credential."""
    if scheme.type == "apiKey" and scheme.location == "header":
        return f"API key in the header {scheme.name}: auth.header, or auth.userKey for each user's own"
    if scheme.type == "apiKey":
        return f"API key in the {scheme.location} {scheme.name}: openapi.credentials.{name}.{scheme.location}"
    if scheme.type == "http" and scheme.scheme == "bearer":
        return "bearer token: auth.bearer, or auth.userKey, auth.tokenExchange or auth.userConsent for each user's own"
    if scheme.type == "http":
        value = f'the value begins with "{scheme.scheme.capitalize()} "'
        return f"HTTP {scheme.scheme}: auth.header with name: Authorization; {value}"
    if scheme.type in _GRANTS:
        return "OAuth token: auth.userConsent or auth.tokenExchange for each user's own, or auth.clientCredentials"
    return f"{scheme.type}: no field of a manifest supports it"
