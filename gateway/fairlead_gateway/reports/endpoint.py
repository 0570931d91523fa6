"""`GET /samples?since=CURSOR&wait=SECONDS` on the operations port. Made by `app`, guarded by the pull token."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

import msgspec

from fairlead_api.reports import LONGEST_WAIT_S
from fairlead_gateway.operations import Asked, Page
from fairlead_gateway.reports.outbox import Outbox


def reports_page(outbox: Outbox) -> Callable[[Asked], Awaitable[Page]]:
    """The page for an outbox."""

    async def page(asked: Asked) -> Page:
        report = await outbox.wait(asked.query.get("since", ""), _seconds(asked.query.get("wait", "0")))
        return Page(200, "application/json", msgspec.json.encode(report))

    return page


def _seconds(text: str) -> float:
    """Within bounds, whatever was asked for."""
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return min(max(value, 0.0), LONGEST_WAIT_S) if math.isfinite(value) else 0.0
