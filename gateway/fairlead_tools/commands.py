"""Commands in sentences for people, made to reach the gateway that the sentence is about. Pure."""

from __future__ import annotations

import re
from typing import Final

DEFAULT_URL: Final = "http://127.0.0.1:8080/mcp"
"""Endpoint that commands ask without `--url`."""
_ASKING: Final = re.compile(
    r"\bfairlead (approve|call|can|diff|explain|leaderboard|logs|plan|refresh|scores|search|servers|tiers|tools|top)\b"
    r"(?! (?:--url|tools:))"
)
"""Commands in a text that ask a gateway."""


def reaching(text: str, url: str) -> str:
    """`text` whose `fairlead` commands name the gateway at `url`, an MCP endpoint, where they would ask another one."""
    return text if url in ("", DEFAULT_URL) else _ASKING.sub(lambda word: f"fairlead {word[1]} --url {url}", text)
