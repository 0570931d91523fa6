"""Security schemes and requirements, which never become arguments of tools. No I/O."""

from __future__ import annotations

from typing import Any

from fairlead_openapi.compiling.references import DocumentReferences
from fairlead_openapi.compiling.report import SecurityScheme
from fairlead_openapi.compiling.shapes import UnusablePart, mapping, sequence, text


def security_schemes(document: dict[str, Any], references: DocumentReferences) -> dict[str, SecurityScheme]:
    """The schemes of a document by name, without those that cannot be read."""
    schemes = {}
    components = document.get("components")
    scheme_objects = components.get("securitySchemes") if isinstance(components, dict) else None
    for name, value in scheme_objects.items() if isinstance(scheme_objects, dict) else ():
        try:
            scheme = mapping(references.resolve(value), "a security scheme")
        except UnusablePart:
            continue
        schemes[name] = SecurityScheme(
            type=text(scheme.get("type")),
            name=text(scheme.get("name")),
            location=text(scheme.get("in")),
            scheme=text(scheme.get("scheme")).lower(),
        )
    return schemes


def security_alternatives(operation: dict[str, Any], document: dict[str, Any]) -> tuple[tuple[str, ...], ...]:
    """Alternative security requirements of an operation: its own, otherwise the document's. Each alternative names the
    schemes that are needed together.

    Raises UnusablePart.
    """
    requirements = operation.get("security", document.get("security"))
    alternatives = [
        tuple(sorted(mapping(each, "a security requirement"))) for each in sequence(requirements, "`security`")
    ]
    return tuple(dict.fromkeys(alternatives))


def is_credential(location: str, name: str, schemes: dict[str, SecurityScheme]) -> bool:
    """Whether a parameter is the credential of an `apiKey` scheme. Header names are compared without case."""
    return any(
        scheme.type == "apiKey"
        and scheme.location == location
        and (scheme.name == name or (location == "header" and scheme.name.lower() == name.lower()))
        for scheme in schemes.values()
    )
