"""Pages of the operations port: metrics, the report for the operator, and the probes."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Callable, Mapping

from prometheus_client.registry import CollectorRegistry

from fairlead_api.reports import PATH
from fairlead_app.metrics.exposition import expose_metrics
from fairlead_gateway.core.operations_page import Page, PageRequest, PageResponse, failure
from fairlead_gateway.reports.endpoint import reports_page
from fairlead_gateway.reports.outbox import Outbox
from fairlead_web.guard import HEALTH, READY, Readiness


def operations_pages(
    metrics: CollectorRegistry, readiness: Callable[[], Readiness], outbox: Outbox, token: str
) -> Mapping[str, Page]:
    """Pages by path. `token` protects the report."""

    async def metrics_page(request: PageRequest) -> PageResponse:
        accept = request.headers.get(b"accept", b"").decode("latin-1")
        body, media_type = await expose_metrics(metrics, accept)
        return PageResponse(body, media_type=media_type)

    async def alive_page(request: PageRequest) -> PageResponse:
        return PageResponse(b"ok\n")

    async def ready_page(request: PageRequest) -> PageResponse:
        state = readiness()
        return PageResponse(f"{state.reason}\n".encode(), 200 if state.ready else 503)

    reports = require_token(token, reports_page(outbox))
    return {"/metrics": metrics_page, PATH: reports, HEALTH: alive_page, READY: ready_page}


def require_token(token: str, page: Page) -> Page:
    """A page that requires a bearer token; with an empty `token`, a page for loopback addresses only."""

    async def answer(request: PageRequest) -> PageResponse:
        if token:
            token_sent = request.headers.get(b"authorization", b"").removeprefix(b"Bearer ")
            if hmac.compare_digest(token_sent, token.encode()):
                return await page(request)
            message = "the bearer token of the request does not match FAIRLEAD_PULL_TOKEN"
            return failure(401, message, b"www-authenticate: Bearer\r\n")
        if request.address and ipaddress.ip_address(request.address).is_loopback:
            return await page(request)
        return failure(
            403, "FAIRLEAD_PULL_TOKEN is not set, so this page is served only to loopback addresses: set the token"
        )

    return answer
