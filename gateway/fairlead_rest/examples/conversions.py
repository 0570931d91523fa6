"""Examples of conversions of definitions, calls and results."""

from __future__ import annotations

from typing import Any, Final

CONVERT: Final[dict[str, Any]] = {
    "OpenAI to Anthropic": {
        "from": "openai",
        "to": "anthropic",
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "lookup_user",
                    "description": "Look up a user by email address",
                    "parameters": {
                        "type": "object",
                        "properties": {"email": {"type": "string", "description": "The user's email address"}},
                        "required": ["email"],
                    },
                },
            }
        ],
    }
}
CONVERTED: Final[dict[str, Any]] = {
    "for Anthropic": {
        "format": "anthropic",
        "member": "/tools",
        "tools": [
            {
                "name": "lookup_user",
                "description": "Look up a user by email address",
                "input_schema": {
                    "type": "object",
                    "properties": {"email": {"type": "string", "description": "The user's email address"}},
                    "required": ["email"],
                },
            }
        ],
        "names": {"lookup_user": "lookup_user"},
        "report": [],
    }
}
SAY: Final[dict[str, Any]] = {
    "a turn from Anthropic to OpenAI": {
        "from": "anthropic",
        "to": "openai",
        "message": {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "toolu_1", "name": "demo__get_stock", "input": {"item": "rope"}}],
        },
        "results": [
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "12"}]},
        ],
    }
}
SAID: Final[dict[str, Any]] = {
    "for OpenAI": {
        "format": "openai-chat",
        "messages": [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "toolu_1",
                        "type": "function",
                        "function": {"name": "demo__get_stock", "arguments": '{"item":"rope"}'},
                    }
                ],
            }
        ],
        "results": [{"role": "tool", "tool_call_id": "toolu_1", "content": "12"}],
        "pending": [],
        "invalid": {},
        "report": [],
    }
}
