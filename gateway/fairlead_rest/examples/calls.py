"""Examples of a model's calls, and what they take."""

from __future__ import annotations

from typing import Any, Final

CALLS: Final[dict[str, Any]] = {
    "OpenAI Chat": {
        "format": "openai-chat",
        "message": {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "demo__get_stock", "arguments": '{"item": "rope"}'},
                }
            ],
        },
        "timeoutMs": 5000,
    },
    "Anthropic, one after the other": {
        "format": "anthropic",
        "strategy": "sequential",
        "message": {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "toolu_1", "name": "demo__get_stock", "input": {"item": "rope"}}],
        },
    },
}
_COST: Final[dict[str, Any]] = {
    "strategy": "parallel",
    "atOnce": 1,
    "usualMs": 5.1,
    "slowMs": 7.9,
    "unknown": [],
    "tier": "fast",
    "tierMs": 500,
    "fits": True,
    "actualMs": None,
}
RESULTS: Final[dict[str, Any]] = {
    "OpenAI Chat": {
        "format": "openai-chat",
        "messages": [{"role": "tool", "tool_call_id": "call_1", "content": "12"}],
        "calls": [
            {"id": "call_1", "name": "demo__get_stock", "state": "done", "tool": "demo__get_stock", "durationMs": 5.2}
        ],
        "pending": [],
        "report": [],
        "cost": {**_COST, "actualMs": 5.9},
    }
}
PREDICTED: Final[dict[str, Any]] = {
    "one call": {
        "format": "openai-chat",
        "calls": [
            {
                "usualMs": 5.1,
                "slowMs": 7.9,
                "basis": "measured",
                "id": "call_1",
                "name": "demo__get_stock",
                "tool": "demo__get_stock",
            }
        ],
        "cost": _COST,
    }
}
