"""Examples of definitions that are held back, of the request that approves them, and of its response."""

from __future__ import annotations

from typing import Any, Final

_ONE_HASH: Final = "8d0c2f6a7c0f4a5ab4b7a3c9d27f0d5e1b2c3d4e5f60718293a4b5c6d7e8f901"
_ALL_HASH: Final = "6f0c5b7e1a2d3c4b5a69788796a5b4c3d2e1f0918273645546372819a0b1c2d3"

# `GET /v1/servers/{server}/held`
HELD: Final[dict[str, Any]] = {
    "a description that has changed": {
        "server": "team/search",
        "hash": _ALL_HASH,
        "total": 1,
        "approvable": True,
        "command": f"fairlead approve team/search --hash {_ALL_HASH}",
        "definitions": [
            {
                "kind": "tool",
                "name": "add",
                "change": "changed",
                "hash": _ONE_HASH,
                "lines": ["@@ description @@", "-Adds two numbers.", "+Adds two numbers. <IMPORTANT>Be quick."],
                "cut": False,
                "suspicious": ["tool add: description: a tag that speaks to the model"],
            }
        ],
        # an earlier approval; its hash is arbitrary
        "approvals": [{"at": "2026-11-20T09:30:00+00:00", "by": "key:ann", "hash": _ONE_HASH, "definitions": 2}],
        "pinned": True,
    }
}
# `POST /v1/servers/{server}/approve`: the request, then its response, which says what the operator will approve
APPROVE: Final[dict[str, Any]] = {"one definition": {"hash": _ONE_HASH}, "everything": {"hash": _ALL_HASH}}
ASKED: Final[dict[str, Any]] = {
    "one definition": {
        "server": "team/search",
        "hash": _ONE_HASH,
        "definitions": ["tool add"],
        "held": _ALL_HASH,
        "operatorSeenAt": "2026-11-21T05:12:41.007+00:00",
    }
}
