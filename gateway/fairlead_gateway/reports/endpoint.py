"""`GET /samples?since=CURSOR&wait=SECONDS` on the operations port. Made by `app`, guarded by the pull token."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead_api.reports import LONGEST_WAIT_S
from fairlead_gateway.reports.outbox import Outbox


def reports_page(outbox: Outbox) -> Callable[[Request], Awaitable[Response]]:
    """The page for an outbox."""

    async def page(request: Request) -> Response:
        query = request.query_params
        report = await outbox.wait(query.get("since", ""), _seconds(query.get("wait", "0")))
        return Response(msgspec.json.encode(report), media_type="application/json")

    return page


def _seconds(text: str) -> float:
    """Within bounds, whatever was asked for."""
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return min(max(value, 0.0), LONGEST_WAIT_S) if math.isfinite(value) else 0.0
