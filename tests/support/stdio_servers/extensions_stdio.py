"""A server of 2025-11-25 over stdio with an app and a skill: extensions_stdio.py NAME.

Servers of any NAME share all their URIs.
"""

import hashlib
import json
import sys
from typing import Any

APP = "ui://shared/app.html"
SKILL = "skill://shared/SKILL.md"
NOTES = "skill://shared/notes.txt"
EXTENSIONS: dict[str, Any] = {f"io.modelcontextprotocol/{name}": {} for name in ("ui", "skills")}
CAPABILITIES: dict[str, Any] = {"tools": {}, "resources": {}, "extensions": EXTENSIONS}
TOOL: dict[str, Any] = {
    "name": "show",
    "inputSchema": {"type": "object"},
    "_meta": {"ui": {"resourceUri": APP}},
}


def text_of(name: str, uri: str) -> str:
    """The text of a resource."""
    return f"{uri} of {name}, \u00e9\r\n"


def entry_of(name: str) -> dict[str, Any]:
    """Entry of the skill."""
    files = []
    for uri in (SKILL, NOTES):
        data = text_of(name, uri).encode()
        files.append({"uri": uri, "digest": f"sha256:{hashlib.sha256(data).hexdigest()}", "size": len(data)})
    return {"uri": SKILL, "frontmatter": {"name": "shared"}, "resources": files}


def answer(name: str, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a request; None where there is no such method."""
    if method == "initialize":
        info = {"name": name, "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        return {"content": [{"type": "resource_link", "uri": APP, "name": name}]}
    if method == "resources/read":
        return {"contents": [{"uri": params["uri"], "text": text_of(name, params["uri"])}]}
    if method == "skills/get":
        return {"skill": entry_of(name), "ttlMs": 0, "cacheScope": "private"}
    return None


def response(name: str, line: str | bytes) -> dict[str, Any] | None:
    """Response to a message; None for no response."""
    request = json.loads(line)
    if "id" not in request or "method" not in request:
        return None
    result = answer(name, request["method"], request.get("params", {}))
    ending = {"error": {"code": -32601, "message": "Method not found"}} if result is None else {"result": result}
    return {"jsonrpc": "2.0", "id": request["id"], **ending}


if __name__ == "__main__":
    for received in sys.stdin:
        reply = response(sys.argv[1], received)
        if reply is not None:
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()
