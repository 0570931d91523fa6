"""Example responses for the OpenAPI document: lists of tools, and a problem (RFC 9457)."""

from __future__ import annotations

from typing import Any, Final

_DEFINITION: Final[dict[str, Any]] = {
    "name": "demo__get_stock",
    "description": "How many of an item are in stock.",
    "inputSchema": {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]},
}
TOOL: Final[dict[str, Any]] = {
    "a tool": {
        "id": "mcp.demo.get_stock",
        "name": "demo__get_stock",
        "server": "default/demo",
        "offline": False,
        "tags": ["stock"],
        "categories": [],
        "hash": "sha256:5d1b5ba0d9c4f1e6a4d1ff1c9f2b0a8f",
        "searchHash": "sha256:0c2f7f6b1d3e4a59b8c7d6e5f4a3b2c1",
        "latency": {
            "estimated_duration_ms": 300,
            "max_duration_ms": 2000,
            "measured_duration_ms": 41,
            "measured_at": "2026-01-31T08:59:58Z",
            "measured_p99_ms": 120,
            "idempotent": True,
            "cacheable_seconds": 0,
        },
        "definition": _DEFINITION,
        "serverBytes": None,
    }
}
OFFER: Final[dict[str, Any]] = {
    "format": "anthropic",
    "member": "/tools",
    "tools": [
        {
            "name": "demo__get_stock",
            "description": _DEFINITION["description"],
            "input_schema": _DEFINITION["inputSchema"],
        }
    ],
    "names": {"demo__get_stock": "demo__get_stock"},
    "report": [],
}
TOOLS: Final[dict[str, Any]] = {
    "canonical": {"tools": [TOOL["a tool"]]},
    "for Anthropic (?format=anthropic)": OFFER,
}
CARRY: Final[dict[str, Any]] = {
    "a tool of the caller's, for Anthropic": {
        "format": "anthropic",
        "toolsFormat": "openai",
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "ask_user",
                    "description": "Ask the user.",
                    "parameters": {"type": "object", "properties": {"question": {"type": "string"}}},
                },
            }
        ],
    }
}
CARRIED: Final[dict[str, Any]] = {
    "with a tool of the caller's": {
        **OFFER,
        "tools": [
            *OFFER["tools"],
            {
                "name": "ask_user",
                "description": "Ask the user.",
                "input_schema": {"type": "object", "properties": {"question": {"type": "string"}}},
            },
        ],
        "names": {"demo__get_stock": "demo__get_stock", "ask_user": "ask_user"},
        "own": ["ask_user"],
    }
}
PROBLEM: Final[dict[str, Any]] = {
    "type": "tag:fairlead.dev,2026:problem/UNKNOWN_TOOL",
    "title": "The tool does not exist",
    "status": 404,
    "detail": "Unknown tool: demo__get_stok. Did you mean demo__get_stock?",
    "code": "UNKNOWN_TOOL",
    "didYouMean": "demo__get_stock",
}
