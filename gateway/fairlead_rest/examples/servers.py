"""Examples of servers, their logs and their events."""

from __future__ import annotations

from typing import Any, Final

SERVERS: Final[dict[str, Any]] = {
    "a ready server and a failed server": {
        "servers": [
            {
                "server": "default/demo",
                "state": "ready",
                "prefix": "demo",
                "offline": False,
                "breaker": "closed",
                "tools": 4,
                "endpoint": "/servers/default/demo/mcp",
                "transport": "stdio-child",
                "protocolVersion": "2026-07-28",
                "extensions": ["io.modelcontextprotocol/tasks"],
                "serverInfo": {"name": "demo", "version": "1.0.0"},
                "hash": "sha256:5d1b5ba0d9c4f1e6a4d1ff1c9f2b0a8f",
                "updatedAt": "2026-11-21T05:00:00Z",
                "problems": [],
                "refreshed": {"at": "2026-11-21T05:10:00.250+00:00", "failure": None},
                "p95Ms": 21.4,
                "restarts": 0,
                "rssBytes": 41250816,
            },
            {
                "server": "default/mail",
                "state": "failed",
                "reason": "StartFailed",
                "cause": "StartFailed",
                "prefix": "mail",
                "offline": True,
                "endpoint": "/servers/default/mail/mcp",
                "problems": [],
                "refreshed": {
                    "at": "2026-11-21T05:10:00.250+00:00",
                    "failure": "default/mail exited with code 1: MAIL_TOKEN is not set",
                },
                "message": "default/mail exited with code 1: MAIL_TOKEN is not set. "
                "Check the program, its arguments and env; fairlead logs default/mail has what it printed.",
                "restarts": 5,
                "lastWords": "MAIL_TOKEN is not set",
            },
        ]
    }
}
SERVER: Final[dict[str, Any]] = {
    f"a {server['state']} server": server for server in SERVERS["a ready server and a failed server"]["servers"]
}
LOG: Final[dict[str, Any]] = {
    "a server that did not start": {
        "server": "default/weather",
        "lines": [
            {"at": "2026-11-21T05:00:00.120+00:00", "run": 1, "stream": "run", "text": "started"},
            {
                "at": "2026-11-21T05:00:00.481+00:00",
                "run": 1,
                "stream": "stderr",
                "text": "Error: WEATHER_KEY is not set",
            },
            {"at": "2026-11-21T05:00:00.502+00:00", "run": 1, "stream": "run", "text": "exited with code 1"},
        ],
        "next": 3,
        "missed": False,
    }
}
REFRESH: Final[dict[str, Any]] = {
    "a second discovery": {
        "server": "default/demo",
        "before": "2026-11-21T05:10:00.250+00:00",
        "operatorSeenAt": "2026-11-21T05:12:41.007+00:00",
    }
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
    "the tools of a server have changed": {
        "id": "9f2c11aa-9",
        "type": "tools.changed",
        "at": "2026-11-21T05:00:03.481+00:00",
        "server": "default/demo",
        "added": ["get_price"],
        "changed": ["get_stock"],
    },
}
