"""A server of one era with tools that have user interfaces (SEP-1865)."""

from __future__ import annotations

import json
from typing import Any, Final

from msgspec import Raw

from fairlead_api.documents.catalog import Catalog, Definition
from gatewayworld import LEGACY, MODERN, catalog
from rawserver import Reply, Request
from toolservers import answer_handshake, answer_modern, tool

SHARED: Final = "ui://shared/app.html"
CAPABILITIES: Final = Raw(b'{"resources":{},"prompts":{},"extensions":{"io.modelcontextprotocol/ui":{}}}')


class AppServer:
    """A server of one era whose tools refer to user interfaces. One of these is not in the server's list of
    resources.
    """

    def __init__(self, name: str, era: str = MODERN) -> None:
        self.name = name
        self.era = era
        self.read: list[str] = []
        self.called: list[str] = []

    def tools(self) -> list[Any]:
        ui = {"resourceUri": SHARED, "visibility": ["model", "app"]}
        return [
            tool("show", _meta={"ui": ui, "ui/resourceUri": SHARED, "k": {"uri": SHARED}}),
            tool("refresh", _meta={"ui": {"resourceUri": "ui://shared/hidden.html", "visibility": ["app"]}}),
            tool("think", _meta={"ui": {"visibility": ["model"]}}),
            tool(f"only_{self.name}"),
        ]

    def catalog(self, url: str, **more: Any) -> Catalog:
        resource = {"uri": SHARED, "name": "app", "mimeType": "text/html;profile=mcp-app", "x": 1.50}
        item = Definition(name=SHARED, definition=Raw(json.dumps(resource).encode()), hash="")
        more.setdefault("tools", self.tools())
        return catalog(self.name, url, version=self.era, resources=(item,), capabilities=CAPABILITIES, **more)

    def result(self, request: Request) -> dict[str, Any] | None:
        params = request.params
        if request.method == "resources/read":
            self.read.append(params["uri"])
            html = f"<p>of {self.name}, see {SHARED}</p>"
            return {"contents": [{"uri": params["uri"], "text": html, "_meta": {"ui": {"domain": "d", "csp": {}}}}]}
        if request.method == "tools/call":
            self.called.append(params["name"])
            link = {"type": "resource_link", "uri": SHARED, "name": "l"}
            embedded = {"type": "resource", "resource": {"uri": SHARED, "text": SHARED}}
            return {"content": [link, embedded], "_meta": {"ui": {"resourceUri": SHARED}, "by": self.name}}
        if request.method == "prompts/get":
            return {"messages": [{"role": "user", "content": {"type": "resource", "resource": {"uri": SHARED}}}]}
        return None

    async def handle(self, request: Request, reply: Reply) -> None:
        if self.era == LEGACY and answer_handshake(request, reply):
            return None
        result = self.result(request)
        if result is None:
            return answer_modern(request, reply) if self.era == MODERN else reply.error(request, 200, -32601, "?")
        return reply.result(request, {"resultType": "complete", **result} if self.era == MODERN else result)
