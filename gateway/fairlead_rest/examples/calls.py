"""Examples of a model's calls, of their predicted duration, and of ended calls."""

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
    "Anthropic, sequential": {
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
_CALL: Final[dict[str, Any]] = {
    "id": "9f2c11aa-41",
    "at": "2026-11-21T05:00:00.120+00:00",
    "method": "tools/call",
    "name": "demo__get_stock",
    "server": "default/demo",
    "agent": "shopkeeper",
    "outcome": "ok",
    "durationMs": 412.608,
    "traceId": "4bf92f3577b34da6a3ce929d0e0e4736",
}
RECENT: Final[dict[str, Any]] = {
    "one call, with older calls": {
        "calls": [_CALL],
        "next": "9f2c11aa-41",
        "kept": 41,
        "values": {
            "agents": ["shopkeeper"],
            "servers": ["default/demo"],
            "tools": ["demo__get_stock"],
            "outcomes": ["TIMEOUT", "ok"],
        },
    }
}
CALL: Final[dict[str, Any]] = {
    "a call that took two attempts": {
        **_CALL,
        "principal": "key:shopkeeper",
        "client": "10.1.2.3",
        "attempts": 2,
        "argumentsBytes": 15,
        "resultBytes": 118,
        "phases": [
            {"phase": "checks", "startMs": 0.0, "durationMs": 0.061},
            {"phase": "attempt", "startMs": 0.061, "durationMs": 1.204, "error": "ConnectionLost"},
            {"phase": "backoff", "startMs": 1.265, "durationMs": 98.7},
            {"phase": "attempt", "startMs": 99.965, "durationMs": 312.6},
            {"phase": "translation", "startMs": 412.565, "durationMs": 0.043},
        ],
    }
}
TAIL: Final[dict[str, Any]] = {
    "the stream begins": {"id": "9f2c11aa-40", "type": "stream.opened", "missed": False},
    "a call has ended": {
        "id": "9f2c11aa-41",
        "type": "calls.ended",
        "calls": [_CALL],
        "more": 0,
        "missed": False,
    },
}
