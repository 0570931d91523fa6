"""Examples of the OpenAPI document, each as it was sent or answered by a gateway over the demo server."""

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
            "measured_p99_ms": 120,
            "idempotent": True,
            "cacheable_seconds": 0,
        },
        "definition": _DEFINITION,
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
SERVERS: Final[dict[str, Any]] = {
    "one server": {
        "servers": [
            {
                "server": "default/demo",
                "prefix": "demo",
                "offline": False,
                "breaker": "closed",
                "tools": 4,
                "endpoint": "/servers/default/demo/mcp",
                "protocolVersion": "2026-07-28",
                "serverInfo": {"name": "demo", "version": "1.0.0"},
                "hash": "sha256:5d1b5ba0d9c4f1e6a4d1ff1c9f2b0a8f",
                "updatedAt": "2026-11-21T05:00:00Z",
                "problems": [],
                "refreshed": {"at": "2026-11-21T05:10:00.250+00:00", "failure": None},
            }
        ]
    }
}
SERVER: Final[dict[str, Any]] = {"one server": SERVERS["one server"]["servers"][0]}
REFRESH: Final[dict[str, Any]] = {
    "asked for the second time": {
        "server": "default/demo",
        "before": "2026-11-21T05:10:00.250+00:00",
        "operatorSeenAt": "2026-11-21T05:12:41.007+00:00",
    }
}

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

TIERS: Final[dict[str, Any]] = {
    "the default tiers": {
        "tiers": [
            {
                "name": "fast",
                "maxLatencyMs": 500,
                "quantile": "p95",
                "default": True,
                "endpoint": "/mcp/fast",
                "tools": 12,
                "hidden": {"demo__forecast": "over_budget p95=812ms tier=500ms late=5/5 by=recent back=5-in-time"},
            },
            {
                "name": "standard",
                "maxLatencyMs": 1500,
                "quantile": "p95",
                "default": False,
                "endpoint": "/mcp/standard",
                "tools": 13,
                "hidden": {},
            },
        ],
        "decidedAt": "2026-01-31T09:00:00.000Z",
    }
}
TIER: Final[dict[str, Any]] = {
    "a partial transcript": {
        "text": "do you remember what we",
        "final": False,
        "number": 3,
        "queueDepth": 0,
        "state": "",
    }
}
TIER_CHOSEN: Final[dict[str, Any]] = {
    "by a word": {
        "tier": "standard",
        "rule": "keywords",
        "matched": "remember*",
        "limitMs": 1500,
        "expectedMs": 640,
        "filler": False,
        "route": "direct",
        "state": "c2lnbmVk",
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

PLAN: Final[dict[str, Any]] = {
    "a conversation": {
        "models": ["gpt-5-mini", {"model": "claude-sonnet-5", "format": "anthropic"}],
        "messages": [{"role": "user", "content": "How much rope is left?"}],
        "system": "You run a chandlery.",
        "maxTools": 20,
        "reservedOutputTokens": 4096,
        "pinned": ["demo__get_stock"],
    }
}
PLANNED: Final[dict[str, Any]] = {
    "everything fits": {
        "model": "claude-sonnet-5",
        "offer": OFFER,
        "shortened": [],
        "cut": [],
        "offline": [],
        "skipped": [],
        "numbers": {
            "contextWindow": 200000,
            "toolTokens": 411,
            "systemPromptTokens": 9,
            "messageTokens": 17,
            "reservedOutputTokens": 4096,
            "available": 195467,
            "counter": "o200k_base",
            "family": "claude-4.7",
            "textFactor": 1.55,
            "toolFactor": 1.581,
            "windowSource": "file",
        },
    }
}

_MODEL: Final[dict[str, Any]] = {
    "id": "claude-sonnet-5",
    "object": "model",
    "context_window": 1000000,
    "family": "claude-4.7",
    "format": "anthropic",
    "source": "file",
    "as_of": "2026-11-10",
}
MODEL: Final[dict[str, Any]] = {"a model of the file": _MODEL}
MODELS: Final[dict[str, Any]] = {
    "the file and a model server": {
        "object": "list",
        "data": [
            _MODEL,
            {
                "id": "our-qwen",
                "object": "model",
                "context_window": 65536,
                "family": "unknown",
                "format": "openai-chat",
                "source": "live",
                "as_of": "2026-11-21T07:40:00Z",
                "routes": ["default"],
            },
        ],
        "file_date": "2026-11-10",
        "file_source": "genai-prices 0.2.3 (MIT)",
        "live": {"models": 1, "as_of": "2026-11-21T07:40:00Z"},
    }
}

PROBLEM: Final[dict[str, Any]] = {
    "type": "tag:fairlead.dev,2026:problem/UNKNOWN_TOOL",
    "title": "There is no such tool",
    "status": 404,
    "detail": "there is no tool 'demo__get_stok'; did you mean 'demo__get_stock'?",
    "code": "UNKNOWN_TOOL",
    "didYouMean": "demo__get_stock",
}
EVENTS: Final[dict[str, Any]] = {
    "the stream begins": {"id": "9f2c11aa-7", "type": "stream.opened", "missed": False},
    "a server has lost its connection": {
        "id": "9f2c11aa-8",
        "type": "server.disconnected",
        "at": "2026-11-21T05:00:00.120+00:00",
        "server": "default/demo",
        "reason": "offline",
    },
    "its tools have changed": {
        "id": "9f2c11aa-9",
        "type": "tools.changed",
        "at": "2026-11-21T05:00:03.481+00:00",
        "server": "default/demo",
        "added": ["get_price"],
        "changed": ["get_stock"],
    },
}
