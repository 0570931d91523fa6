"""Makes the announcements about changes of a server's catalog and conditions. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead_api.documents.catalog import Catalog
from fairlead_api.v1alpha1.condition_types import ABNORMAL, ConditionType, Reason
from fairlead_api.v1alpha1.mcpserver import McpServerStatus
from fairlead_operator.ports import Announcement
from fairlead_operator.server.catalog_changes import tool_changes


def catalog_announcement(previous_catalog: Catalog | None, catalog: Catalog) -> Announcement:
    """Announcement of a published catalog, with the numbers of new, removed and changed tools."""
    note = _tool_count(len(catalog.tools))
    if previous_catalog is not None:
        changes = tool_changes(previous_catalog, catalog)
        note += f": {changes.added} new, {changes.removed} removed, {changes.modified} changed"
    return Announcement("Normal", "CatalogPublished", note)


def condition_announcements(
    previous_status: McpServerStatus, current_status: McpServerStatus
) -> Iterator[Announcement]:
    """Announcements of changes of the condition Ready, of a new reason while Ready is not True, and of new conditions
    that are abnormal when True, such as PartiallyInvalid.
    """
    for kind in (ConditionType.READY, *sorted(ABNORMAL)):
        old_condition, new_condition = previous_status.condition(kind), current_status.condition(kind)
        if new_condition is None or (
            old_condition is not None
            and (old_condition.status, old_condition.reason) == (new_condition.status, new_condition.reason)
        ):
            continue
        if (new_condition.status == "True") == (kind in ABNORMAL) and new_condition.status != "Unknown":
            is_intended = new_condition.reason == Reason.STOPPED
            yield Announcement("Normal" if is_intended else "Warning", new_condition.reason, new_condition.message)
        elif new_condition.status == "True":
            yield Announcement("Normal", "Ready", f"ready with {_tool_count(current_status.tools or 0)}")


def _tool_count(number: int) -> str:
    return "1 tool" if number == 1 else f"{number} tools"
