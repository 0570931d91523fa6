"""Checks whether a server lists all tools that its McpServer names in `spec.tools`. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fairlead_api.v1alpha1.causes import Cause
from fairlead_api.v1alpha1.condition_types import ConditionType
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_operator.condition_assembly import verdict_of
from fairlead_operator.discovery.findings import ListingFindings
from fairlead_operator.ports import ConditionVerdict

_MAX_UNLISTED: Final = 5
"""Maximum number of unlisted tools that a message names."""
_MAX_LISTED: Final = 10
"""Maximum number of listed tools that a message names, for comparison."""


def override_verdict(server: McpServer, findings: ListingFindings | None) -> ConditionVerdict | None:
    """Verdict PartiallyInvalid about a server that does not list all tools of its `spec.tools`; None if it does.

    `findings` are the findings of the last listing; None if this operator has not listed the server: then an existing
    condition of this cause is kept.
    """
    if not server.spec.tools:
        return None
    if findings is None:
        shown_verdict = verdict_of(server.status.condition(ConditionType.PARTIALLY_INVALID))
        return shown_verdict if shown_verdict is not None and shown_verdict.cause is Cause.UNKNOWN_TOOL else None
    unlisted = findings.unlisted_overrides(server.spec.tools)
    if not unlisted:
        return None
    message = (
        f"the declaration names tools that the server does not list ({_enumerate(unlisted, _MAX_UNLISTED)}), which has "
        f"no effect; the server lists {_enumerate(findings.offered, _MAX_LISTED) or 'no tools'}"
    )
    return ConditionVerdict(True, Cause.UNKNOWN_TOOL, message)


def _enumerate(names: Sequence[str], limit: int) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
