"""The condition `DefinitionsClean`: whether definitions hide something or speak to the model. Pure."""

from __future__ import annotations

from typing import Final

from fairlead_api.v1alpha1.causes import Cause
from fairlead_operator.ports import ConditionVerdict
from fairlead_tools.definitions.scan import Finding

SHOWN: Final = 5
"""Findings that its message has."""

CLEAN: Final = ConditionVerdict(
    True, Cause.DEFINITIONS_CLEAN, "nothing hidden and nothing that speaks to the model was found"
)


def verdict(findings: tuple[Finding, ...]) -> ConditionVerdict:
    """The condition `DefinitionsClean`."""
    if not findings:
        return CLEAN
    causes = {finding.cause for finding in findings}
    cause = causes.pop() if len(causes) == 1 else Cause.SUSPICIOUS_DEFINITIONS
    more = len(findings) - SHOWN
    shown = "; ".join(str(finding) for finding in findings[:SHOWN])
    return ConditionVerdict(False, cause, shown + (f"; and {more} more" if more > 0 else ""))
