"""Makes the announcements about changes of a server's catalog and conditions. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead_api.documents.catalog import Catalog
from fairlead_api.v1alpha1.condition_types import ABNORMAL, ConditionType, Reason
from fairlead_api.v1alpha1.mcpserver import McpServerStatus
from fairlead_operator.ports import Announcement
from fairlead_operator.server.catalog_changes import tool_changes


def catalog_announcement(previous: Catalog | None, published: Catalog) -> Announcement:
    """Announcement of a published catalog, with the numbers of new, removed and changed tools."""
    note = _tool_count(len(published.tools))
    if previous is not None:
        changes = tool_changes(previous, published)
        note += f": {changes.added} new, {changes.removed} removed, {changes.modified} changed"
    return Announcement("Normal", "CatalogPublished", note)


def condition_announcements(previous: McpServerStatus, current: McpServerStatus) -> Iterator[Announcement]:
    """Announcements of changes of the condition Ready, of a new reason while Ready is not True, and of new conditions
    that are abnormal when True, such as PartiallyInvalid.
    """
    for kind in (ConditionType.READY, *sorted(ABNORMAL)):
        before, after = previous.condition(kind), current.condition(kind)
        if after is None or (before is not None and (before.status, before.reason) == (after.status, after.reason)):
            continue
        if (after.status == "True") == (kind in ABNORMAL) and after.status != "Unknown":
            is_intended = after.reason == Reason.STOPPED
            yield Announcement("Normal" if is_intended else "Warning", after.reason, after.message)
        elif after.status == "True":
            yield Announcement("Normal", "Ready", f"ready with {_tool_count(current.tools or 0)}")


def _tool_count(number: int) -> str:
    return "1 tool" if number == 1 else f"{number} tools"
