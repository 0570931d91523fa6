"""Examples of tiers, plans and models."""

from __future__ import annotations

from typing import Any, Final

from fairlead_rest.examples.tools import OFFER

TIER_MOVES: Final[dict[str, Any]] = {
    "a tool that became slow, and fast again": {
        "since": "2026-01-31T08:00:00.000+00:00",
        "until": "2026-01-31T09:10:00.000+00:00",
        "total": 2,
        "moves": [
            {
                "at": "2026-01-31T09:04:11.250+00:00",
                "tool": "demo__forecast",
                "server": "default/demo",
                "left": [],
                "entered": ["fast"],
                "before": "standard",
                "after": "fast",
                "reason": "fits p95=212ms tier=500ms late=0/5 hides-at=5 points=0/30",
            },
            {
                "at": "2026-01-31T09:00:00.120+00:00",
                "tool": "demo__forecast",
                "server": "default/demo",
                "left": ["fast"],
                "entered": [],
                "before": "fast",
                "after": "standard",
                "reason": "over_budget p95=812ms tier=500ms late=5/5 by=recent back=5-in-time",
            },
        ],
    }
}
TIERS: Final[dict[str, Any]] = {
    "the first tiers": {
        "tiers": [
            {
                "name": "fast",
                "maxLatencyMs": 500,
                "quantile": "p95",
                "default": False,
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
        "number": 3,
        "rule": "keywords",
        "matched": "do you remember",
        "limitMs": 1500,
        "expectedMs": 640,
        "filler": False,
        "route": "direct",
        "state": "c2lnbmVk",
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
        "task": {"calls": 2, "searches": 1, "caching": True},
    }
}
_LISTED: Final[dict[str, Any]] = {
    "way": "list",
    "listed": 1,
    "reachable": 1,
    "toolTokens": 411,
    "turns": 3,
    "tokens": 1311,
    "pricedTokens": 1311,
    "largestPrompt": 437,
    "fits": True,
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
        "exposure": {
            "options": [
                _LISTED,
                {
                    "way": "search",
                    "listed": 3,
                    "reachable": 1,
                    "toolTokens": 1292,
                    "turns": 4,
                    "tokens": 7201,
                    "pricedTokens": 3964,
                    "largestPrompt": 1994,
                    "fits": True,
                },
            ],
            "cheapest": _LISTED,
            "advice": "a list is cheapest: the task costs 1,311 input tokens",
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
