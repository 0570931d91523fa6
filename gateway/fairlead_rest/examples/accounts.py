"""Examples of accounts that users have at servers."""

from __future__ import annotations

from typing import Any, Final

_ACCOUNT: Final[dict[str, Any]] = {
    "server": "default/linear",
    "person": "jwt:https://login.example.com#ann",
    "holder": "https://login.example.com ann",
    "kind": "grant",
    "issuer": "https://mcp.linear.app",
    "scopes": ["read", "write"],
    "since": "2026-11-21T05:00:00Z",
    "renewed": "2026-11-29T09:30:00Z",
    "until": None,
    "unusedUntil": "2027-05-28T09:30:00Z",
}
ACCOUNTS: Final[dict[str, Any]] = {"one account": {"accounts": [_ACCOUNT]}}
ENDED: Final[dict[str, Any]] = {
    "revoked at the provider too": {"account": {**_ACCOUNT, "unusedUntil": None}, "revoked": True}
}
