"""Examples of API keys that principals make for themselves."""

from __future__ import annotations

from typing import Any, Final

_KEY: Final[dict[str, Any]] = {
    "id": "3f9a0c2b77d1",
    "begins": "flk_3f9a0c2b77d1_",
    "name": "editor on my laptop",
    "created": "2026-11-21T05:00:00Z",
    "expires": "2026-12-21T05:00:00Z",
    "agent": "ann",
    "principal": "key:ann",
}
KEYS: Final[dict[str, Any]] = {"one key": {"keys": [_KEY], "days": 90, "each": 10}}
MAKE: Final[dict[str, Any]] = {"for a month": {"name": "editor on my laptop", "days": 30}}
MADE: Final[dict[str, Any]] = {
    "shown once": {"key": "flk_3f9a0c2b77d1_EXAMPLE-of-32-random-bytes-in-base64url-12345", "facts": _KEY}
}
REVOKED: Final[dict[str, Any]] = {"the same key": _KEY}
