"""Examples of sign-ins of clients."""

from __future__ import annotations

from typing import Any, Final

from fairlead_rest.examples.accounts import ENDED as ENDED_ACCOUNTS

_SIGN_IN: Final[dict[str, Any]] = {
    "id": "5f0c1d9a7b3e24688c11f0aa",
    "person": "jwt:https://login.example.com#ann",
    "holder": "https://login.example.com ann",
    "client": "https://claude.ai/oauth/mcp-oauth-client-metadata",
    "name": "Claude",
    "host": "claude.ai",
    "redirectHost": "claude.ai",
    "agent": "claude.ai/oauth/mcp-oauth-client-metadata",
    "resource": "https://tools.example.com/mcp",
    "scopes": [],
    "began": "2026-11-21T05:00:00Z",
    "used": "2026-11-29T09:30:00Z",
    "ends": "2026-12-21T05:00:00Z",
}
SIGN_INS: Final[dict[str, Any]] = {"one client": {"signIns": [_SIGN_IN]}}
ENDED: Final[dict[str, Any]] = {"ended": _SIGN_IN}
ENDED_ALL: Final[dict[str, Any]] = {
    "with an account at a server": {"signIns": [_SIGN_IN], "accounts": list(ENDED_ACCOUNTS.values())}
}
