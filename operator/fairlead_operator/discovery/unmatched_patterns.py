"""Checks whether each pattern of `spec.openapi.include` and `exclude` matches an operation of the document. Pure."""

from __future__ import annotations

from typing import Final

from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.condition_types import ConditionType
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_operator.condition_assembly import verdict_of
from fairlead_operator.discovery.findings import ListingFindings
from fairlead_operator.ports import ConditionVerdict

_MAX_PATTERNS: Final = 5
"""Maximum number of patterns that a message names."""


def pattern_verdict(server: McpServer, findings: ListingFindings | None) -> ConditionVerdict | None:
    """Verdict PartiallyInvalid about an API with patterns that match no operation; None if all match.

    `findings` are the findings of the last listing; None if this operator has not listed the API: then an existing
    condition of this cause is kept.
    """
    source = server.spec.openapi
    if source is None or not (source.include or source.exclude):
        return None
    if findings is None:
        shown_verdict = verdict_of(server.status.condition(ConditionType.PARTIALLY_INVALID))
        return (
            shown_verdict if shown_verdict is not None and shown_verdict.cause is Cause.PATTERNS_MATCH_NOTHING else None
        )
    if findings.api is None or not findings.api.unmatched:
        return None
    unmatched = findings.api.unmatched
    more = f" and {len(unmatched) - _MAX_PATTERNS} more" if len(unmatched) > _MAX_PATTERNS else ""
    patterns = ", ".join(map(repr, unmatched[:_MAX_PATTERNS]))
    message = (
        f"no operation of the document matches {patterns}{more}; {findings.api.operations} operations are selected"
    )
    return ConditionVerdict(True, Cause.PATTERNS_MATCH_NOTHING, message)
