"""A typical bridge from stdio to Streamable HTTP: it passes messages on, and sends only the headers of the transport.
usage: bridge_stdio.py URL
"""

from __future__ import annotations

import json
import sys
import threading
import urllib.error
import urllib.request

session: dict[str, str] = {}
writing = threading.Lock()


def pass_on(line: bytes) -> None:
    """Post a message, and write the answer."""
    message = json.loads(line)
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **session}
    version = message.get("params", {}).get("_meta", {}).get("io.modelcontextprotocol/protocolVersion")
    if version is not None:
        headers |= {"MCP-Protocol-Version": version, "Mcp-Method": message["method"]}
        if "name" in message["params"]:
            headers["Mcp-Name"] = message["params"]["name"]
    try:
        with urllib.request.urlopen(urllib.request.Request(sys.argv[1], line, headers)) as answer:
            body = answer.read()
            if answer.headers.get("Mcp-Session-Id"):
                session["Mcp-Session-Id"] = answer.headers["Mcp-Session-Id"]
    except urllib.error.HTTPError as refused:
        body = refused.read()
    except OSError:
        return
    if "id" in message:
        data = body.rpartition(b"data: ")[2].strip() if body.startswith((b"data", b"event", b"id")) else body
        with writing:
            sys.stdout.buffer.write(data.replace(b"\n", b" ") + b"\n")
            sys.stdout.buffer.flush()


for received in sys.stdin.buffer:
    # a stream may stay open for any time
    threading.Thread(target=pass_on, args=[received], daemon=True).start()
