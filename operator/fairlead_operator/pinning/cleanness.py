"""Makes the verdict DefinitionsClean: whether definitions contain hidden text or instructions to the model. Pure."""

from __future__ import annotations

from typing import Final

from fairlead_api.v1alpha1.causes import Cause
from fairlead_operator.ports import ConditionVerdict
from fairlead_tools.definitions.scan import Finding

MAX_FINDINGS: Final = 5
"""Maximum number of findings in the message."""

CLEAN: Final = ConditionVerdict(
    True, Cause.DEFINITIONS_CLEAN, "no hidden text and no instructions to the model were found"
)


def verdict(findings: tuple[Finding, ...]) -> ConditionVerdict:
    """The verdict DefinitionsClean, with the first findings in its message."""
    if not findings:
        return CLEAN
    causes = {finding.cause for finding in findings}
    cause = causes.pop() if len(causes) == 1 else Cause.SUSPICIOUS_DEFINITIONS
    excess = len(findings) - MAX_FINDINGS
    message = "; ".join(str(finding) for finding in findings[:MAX_FINDINGS])
    return ConditionVerdict(False, cause, message + (f"; and {excess} more" if excess > 0 else ""))
