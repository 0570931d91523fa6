"""A legacy server over stdio that lists some tools only to clients with a capability, as the reference server
"everything" does: `plain` always, `ask_model` with sampling, `ask_person` with elicitation, `ask_roots` with roots.

It asks the client each question as soon as the client allows it, and answers no listing before it has all answers. The
first argument is a file, to which it writes the capabilities of each client.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

METHODS = {
    "ask_model": ("sampling", "sampling/createMessage"),
    "ask_person": ("elicitation", "elicitation/create"),
    "ask_roots": ("roots", "roots/list"),
}
PARAMS = {
    "sampling/createMessage": {"messages": [], "maxTokens": 5},
    "elicitation/create": {"message": "Which?", "requestedSchema": {"type": "object", "properties": {}}},
}
declared: dict[str, Any] = {}
waiting: list[dict[str, Any]] = []
"""Messages that arrived before the answer to a question."""


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def read() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    message: dict[str, Any] = json.loads(line)
    return message


def ask(method: str) -> str:
    """The client's answer to a question."""
    send({"id": "question", "method": method, "params": PARAMS.get(method, {})})
    while (message := read()).get("id") != "question" or "method" in message:
        waiting.append(message)
    return json.dumps(message.get("result", message.get("error")))


def tools() -> list[dict[str, Any]]:
    names = ["plain", *(name for name, (capability, _) in METHODS.items() if capability in declared)]
    return [{"name": name, "inputSchema": {"type": "object"}} for name in names]


def text_result(text: str, *, wrong: bool = False) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "isError": wrong}


def call(name: str) -> dict[str, Any]:
    if name not in {tool["name"] for tool in tools()}:
        return text_result(f"there is no {name}", wrong=True)
    return text_result(ask(METHODS[name][1]) if name in METHODS else f"declared: {json.dumps(declared)}")


def main() -> None:
    while True:
        message = waiting.pop(0) if waiting else read()
        method = message.get("method")
        ident = message.get("id")
        if method == "initialize":
            declared.update(message["params"]["capabilities"])
            with Path(sys.argv[1]).open("a") as seen:
                seen.write(f"{json.dumps(declared)}\n")
            about = {"serverInfo": {"name": "gated", "version": "1"}, "capabilities": {"tools": {}}}
            send({"id": ident, "result": {"protocolVersion": "2025-11-25", **about}})
        elif method == "notifications/initialized" and declared:
            for capability, question in METHODS.values():
                if capability in declared:
                    ask(question)
        elif method == "tools/list":
            send({"id": ident, "result": {"tools": tools()}})
        elif method == "tools/call":
            send({"id": ident, "result": call(message["params"]["name"])})
        elif ident is not None and method is not None:
            send({"id": ident, "error": {"code": -32601, "message": "Method not found"}})


if __name__ == "__main__":
    main()
