"""Decides which of a server's changes deserve an event, and words it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from fairlead_api.documents.catalog import Catalog
from fairlead_api.v1alpha1.condition_types import ABNORMAL, ConditionType, Reason
from fairlead_api.v1alpha1.mcpserver import McpServerStatus
from fairlead_operator.ports import Announcement


def catalog_news(before: Catalog | None, now: Catalog) -> Announcement:
    """How many tools came and went with a catalog."""
    names, before_names = {tool.name for tool in now.tools}, {tool.name for tool in before.tools} if before else set()
    if before is None:
        note = f"{len(names)} tools"
    else:
        note = f"{len(names)} tools: {len(names - before_names)} new, {len(before_names - names)} gone"
    return Announcement("Normal", "CatalogPublished", note)


def condition_news(shown: McpServerStatus, now: McpServerStatus) -> Iterator[Announcement]:
    """Announcements that Ready has moved, or is not True for another reason than before, and that a part of the spec
    has no effect any more.
    """
    for kind in (ConditionType.READY, *sorted(ABNORMAL)):
        before, after = shown.condition(kind), now.condition(kind)
        if after is None or (before is not None and (before.status, before.reason) == (after.status, after.reason)):
            continue
        if (after.status == "True") == (kind in ABNORMAL) and after.status != "Unknown":
            asked_for = after.reason == Reason.STOPPED
            yield Announcement("Normal" if asked_for else "Warning", after.reason, after.message)
        elif after.status == "True":
            yield Announcement("Normal", "Ready", f"ready with {now.tools or 0} tools")
