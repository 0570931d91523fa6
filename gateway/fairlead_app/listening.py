"""Creates the listeners: the port for clients, and the operations port for probes, metrics and the operator."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry

from fairlead_app.configuration import certificates
from fairlead_app.lifecycle import GatewayLifecycle
from fairlead_app.operations_pages import operations_pages
from fairlead_app.parts import GatewayParts
from fairlead_app.served_console import ConsoleEntry, served_console
from fairlead_app.served_rest import served_rest
from fairlead_gateway.endpoint.asgi_exchange import DirectServer
from fairlead_gateway.endpoint.listener import Listener
from fairlead_gateway.endpoint.page_server import PageServer, operations_service
from fairlead_mcp.addresses import AllowList
from fairlead_web.guard import PROBES, GuardMiddleware, PublicPages
from fairlead_web.sign_in_pages import SignInPages

TOOL_CALL_PATHS: Final = (b"/v1/tool-calls", b"/v1/executions")
"""Targets of the REST API by which programs call tools."""


def client_listener(parts: GatewayParts, lifecycle: GatewayLifecycle, entry: ConsoleEntry) -> Listener:
    """Listener for MCP, the REST API, the console and the endpoints in front of models. Raises BadSetting."""
    shared, rest, models = parts.shared, parts.rest, parts.models
    settings = shared.settings
    pages = PublicPages(lifecycle.readiness, rest.guard.resource)
    api = served_rest(pages, rest, shared.heap)
    console = served_console(settings.console, rest, api, entry, shared.metrics.console, shared.heap)
    models_api = () if models.llm is None else (models.llm.api,)
    sign_in = SignInPages(parts.sign_ins, rest.guard)
    authorization = () if parts.authorization is None else (parts.authorization.api.request,)
    guard_middleware = GuardMiddleware(api, rest.guard, *models_api, *authorization, sign_in.request, console.request)
    fallbacks = DirectServer(guard_middleware, shared.heap, models.speech, targets=TOOL_CALL_PATHS)
    listening = settings.listening
    return Listener(parts.path.endpoint, fallbacks, listening.address, listening.port, certificates(listening.tls))


def operations_listener(parts: GatewayParts, lifecycle: GatewayLifecycle, metrics: CollectorRegistry) -> Listener:
    """Listener for probes, metrics, and the report that the operator fetches."""
    settings = parts.shared.settings
    listening = settings.listening
    pages = operations_pages(metrics, lifecycle.readiness, parts.outbox, settings.installation.pull_token)
    allow = AllowList.for_operations(listening.address, listening.allowed_hosts, listening.allowed_origins)
    server = PageServer(pages, allow, PROBES)
    return Listener(operations_service(), server, listening.address, listening.metrics_port)
