"""A server over stdio whose tools answer with long results of every shape that a Python SDK makes.

The argument names the SDK: `fastmcp` for the package of that name, else whichever version of `mcp` is installed.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
LINES = [f"line {number}: the {'keel' if number == 2000 else 'mast'} is of oak" for number in range(1, 3001)]
ROWS = [{"id": number, "part": "keel" if number == 2000 else "mast"} for number in range(1, 3001)]


class Part(BaseModel):
    id: int
    part: str


class Ship(BaseModel):
    name: str
    log: str
    parts: list[Part]


def make_server() -> Any:
    if sys.argv[1:] == ["fastmcp"]:
        from fastmcp import FastMCP

        return FastMCP("shapes")
    if version("mcp").startswith("1."):
        return import_module("mcp.server.fastmcp").FastMCP("shapes")
    from mcp.server import MCPServer

    return MCPServer("shapes")


def text() -> str:
    return "\n".join(LINES)


def json_text() -> str:
    return json.dumps({"rows": ROWS}, separators=(",", ":"))


def object_() -> dict[str, Any]:
    return {"rows": ROWS}


def objects() -> list[dict[str, Any]]:
    return ROWS


def texts() -> list[str]:
    return ["\n".join(LINES[:1500]), "\n".join(LINES[1500:])]


def model() -> Ship:
    return Ship(name="wren", log="\n".join(LINES), parts=models())


def models() -> list[Part]:
    return [Part.model_validate(row) for row in ROWS]


def minified() -> str:
    return ";".join(LINES)


def blocks(*content: dict[str, Any]) -> Any:
    from mcp.types import CallToolResult

    return CallToolResult.model_validate({"content": [*content]}).content


def several() -> Any:
    return blocks(*({"type": "text", "text": "\n".join(part)} for part in (LINES[:1500], LINES[1500:])))


def embedded() -> Any:
    return blocks({"type": "resource", "resource": {"uri": "file:///log", "text": "\n".join(LINES)}})


def mixed() -> Any:
    image = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    return blocks({"type": "text", "text": "\n".join(LINES)}, image)


TOOLS = (text, json_text, object_, objects, texts, model, models, minified, several, embedded, mixed)

if __name__ == "__main__":
    server = make_server()
    for function in TOOLS:
        server.tool()(function)
    server.run()
