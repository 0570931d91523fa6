"""Decides which of a server's changes deserve an event, and words it. Pure."""

from __future__ import annotations

from fairlead_api.documents.catalog import Catalog
from fairlead_api.v1alpha1.conditions import ConditionType
from fairlead_api.v1alpha1.mcpserver import McpServerStatus
from fairlead_operator.ports import Announcement


def catalog_news(before: Catalog | None, now: Catalog) -> Announcement:
    """How many tools came and went with a catalog."""
    names, known = {tool.name for tool in now.tools}, {tool.name for tool in before.tools} if before else set()
    if before is None:
        note = f"{len(names)} tools"
    else:
        note = f"{len(names)} tools: {len(names - known)} new, {len(known - names)} gone"
    return Announcement("Normal", "CatalogPublished", note)


def ready_news(shown: McpServerStatus, now: McpServerStatus) -> Announcement | None:
    """Announcement that Ready has moved, or is not True for another reason than before; else None."""
    before, after = shown.condition(ConditionType.READY), now.condition(ConditionType.READY)
    if after is None or (before is not None and (before.status, before.reason) == (after.status, after.reason)):
        return None
    if after.status == "True":
        return Announcement("Normal", "Ready", f"ready with {now.tools or 0} tools")
    if after.status == "False":
        return Announcement("Warning", after.reason, after.message)
    return None
