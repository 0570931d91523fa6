"""Serves `GET /samples?since=CURSOR&wait=SECONDS` on the operations port. The request needs the pull token."""

from __future__ import annotations

import math

import msgspec

from fairlead_api.reports import LONGEST_WAIT_S
from fairlead_gateway.core.operations_page import Page, PageRequest, PageResponse
from fairlead_gateway.reports.outbox import Outbox


def reports_page(outbox: Outbox) -> Page:
    """Create the page that serves the reports of an outbox."""

    async def page(request: PageRequest) -> PageResponse:
        query = request.query
        report = await outbox.wait(query.get("since", ""), _seconds(query.get("wait", "0")))
        return PageResponse(msgspec.json.encode(report), media_type="application/json")

    return page


def _seconds(text: str) -> float:
    """Parse the waiting time, limited to 0 to `LONGEST_WAIT_S`; 0 for an invalid value."""
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return min(max(value, 0.0), LONGEST_WAIT_S) if math.isfinite(value) else 0.0
