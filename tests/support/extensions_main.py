"""A server of the official SDK with an app and a skill: on stdio, or over HTTP on the port that is its second argument.

python extensions_main.py NAME [PORT]. Servers of any NAME share all their URIs and names of tools.
"""

from __future__ import annotations

import hashlib
import sys
from typing import Any, Final

from mcp.server import MCPServer
from mcp.server.apps import Apps
from mcp.server.context import ServerRequestContext
from mcp.server.extension import Extension, MethodBinding, ResourceBinding
from mcp.server.mcpserver.resources import TextResource
from mcp_types import RequestParams

APP: Final = "ui://shared/app.html"
SKILL: Final = "skill://shared/SKILL.md"


class _Uri(RequestParams):
    uri: str


class Skills(Extension):
    """SEP-2640 as far as this server needs it: the SDK supports extensions in general, but not this one."""

    identifier = "io.modelcontextprotocol/skills"

    def __init__(self, text: str) -> None:
        self._text = text
        data = text.encode()
        file = {"uri": SKILL, "digest": f"sha256:{hashlib.sha256(data).hexdigest()}", "size": len(data)}
        self._entry = {"uri": SKILL, "frontmatter": {"name": "shared"}, "resources": [file]}

    def resources(self) -> list[ResourceBinding]:
        return [ResourceBinding(TextResource(uri=SKILL, name="SKILL.md", text=self._text, mime_type="text/markdown"))]

    def methods(self) -> list[MethodBinding]:
        return [
            MethodBinding("skills/list", RequestParams, self._list),
            MethodBinding("skills/get", _Uri, self._get),
        ]

    async def _list(self, context: ServerRequestContext[Any, Any], params: RequestParams) -> dict[str, Any]:
        return {"skills": [self._entry], "ttlMs": 0, "cacheScope": "private"}

    async def _get(self, context: ServerRequestContext[Any, Any], params: _Uri) -> dict[str, Any]:
        return {"skill": self._entry, "ttlMs": 0, "cacheScope": "private"}


def server(name: str) -> MCPServer:
    """A server that puts its NAME into its HTML, its skill and the results of its tools."""
    apps = Apps()

    @apps.tool(resource_uri=APP, visibility=["model", "app"])
    def show() -> str:
        """Show the page of the server."""
        return name

    @apps.tool(resource_uri=APP, visibility=["app"], name=f"refresh_{name}")
    def refresh() -> str:
        """Refresh the page of the server."""
        return f"refreshed {name}"

    apps.add_html_resource(APP, f"<h1>{name}</h1>")
    return MCPServer(name, extensions=[apps, Skills(f"---\nname: shared\n---\nof {name}\n")])


if __name__ == "__main__":
    made = server(sys.argv[1])
    if len(sys.argv) > 2:
        made.run("streamable-http", port=int(sys.argv[2]))
    else:
        made.run("stdio")
