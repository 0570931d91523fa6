"""A legacy MCP server over stdio in nothing but the standard library, so that it starts fast.

usage: legacy_stdio.py [--silent] [--quit]
  --silent   ignores requests before `initialize` instead of refusing them
  --quit     ends at a request before `initialize`

Tools: echo(…) answers its arguments; die() ends the process; later(n) answers after the next n requests;
changed() sends notifications/tools/list_changed; seen() lists the methods of all messages so far; ask(method) sends
this request to the client, and returns the client's answer and declared capabilities.
"""

import json
import os
import sys
from typing import Any

TOOLS = [
    {"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "die", "later", "changed", "seen", "ask")
]


def send(message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


class Server:
    """State of the server: whether it is initialized, the received methods, and the calls whose answers wait for
    others.
    """

    def __init__(self) -> None:
        self.ready = False
        self.seen: list[str] = []
        self.held: list[list[int]] = []
        self.asking: dict[str, int] = {}
        self.offered: Any = None

    def take(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            told = message.get("result", message.get("error"))
            return answer(self.asking.pop(message["id"]), {"told": told, "offered": self.offered})
        return self.on_message(message)

    def on_message(self, message: dict[str, Any]) -> None:
        method = message["method"]
        ident = message.get("id")
        self.seen.append(method)
        if ident is None:
            return
        if method == "initialize":
            self.ready = True
            self.offered = message["params"]["capabilities"]
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}}}
            send({"jsonrpc": "2.0", "id": ident, "result": {**result, "serverInfo": {"name": "old", "version": "1"}}})
        elif not self.ready:
            refuse(ident)
        elif method == "tools/list":
            send({"jsonrpc": "2.0", "id": ident, "result": {"tools": TOOLS}})
        else:
            self.call(ident, message["params"])

    def call(self, ident: int, params: dict[str, Any]) -> None:
        name = params["name"]
        arguments = params.get("arguments", {})
        token = params.get("_meta", {}).get("progressToken")
        if name == "die":
            sys.stderr.write("told to die\n")
            sys.stderr.flush()
            os._exit(7)
        if name == "ask":
            self.asking[f"q{ident}"] = ident
            send({"jsonrpc": "2.0", "id": f"q{ident}", "method": arguments["method"], "params": {"message": "Which?"}})
            return
        if name == "changed":
            send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        if token is not None:
            progress = {"progressToken": token, "progress": 1}
            send({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress})
        for entry in self.held:
            entry[0] -= 1
        if name == "later":
            self.held.append([arguments["n"], ident])
        else:
            answer(ident, self.seen if name == "seen" else arguments)
        for left, late in self.held:
            if left <= 0:
                answer(late, {"late": True})
        self.held = [entry for entry in self.held if entry[0] > 0]


def answer(ident: int, document: object) -> None:
    content = [{"type": "text", "text": json.dumps(document)}]
    send({"result": {"content": content}, "jsonrpc": "2.0", "id": ident})


def refuse(ident: int) -> None:
    if "--quit" in sys.argv:
        os._exit(3)
    if "--silent" not in sys.argv:
        send({"jsonrpc": "2.0", "id": ident, "error": {"code": -32602, "message": "Invalid request"}})


if __name__ == "__main__":
    server = Server()
    for line in sys.stdin:
        try:
            message = json.loads(line)
        except ValueError:
            continue  # like the SDKs
        server.take(message)
