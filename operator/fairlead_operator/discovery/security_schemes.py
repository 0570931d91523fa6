"""Checks whether an McpServer has credentials only for security schemes that its OpenAPI document defines. Pure."""

from __future__ import annotations

from fairlead_api.documents.catalog import Catalog
from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_openapi.compiling.scheme_names import explain_unknown
from fairlead_operator.ports import ConditionVerdict
from fairlead_operator.server.scheme_credentials import scheme_credentials


def scheme_verdict(server: McpServer, catalog: Catalog | None) -> ConditionVerdict | None:
    """Verdict PartiallyInvalid about a server with a credential for a scheme that its document does not define; None if
    all schemes are defined, or the document's schemes are not known.
    """
    if catalog is None or catalog.api is None or catalog.api.schemes is None:
        return None
    unknown_schemes_text = explain_unknown(scheme_credentials(server.spec), catalog.api.schemes)
    return (
        ConditionVerdict(True, Cause.UNKNOWN_SECURITY_SCHEME, f"spec.{unknown_schemes_text}")
        if unknown_schemes_text
        else None
    )
