"""Adds `--url` to `fairlead` commands in messages, so that they address the right gateway. No I/O."""

from __future__ import annotations

import re
from typing import Final

DEFAULT_URL: Final = "http://127.0.0.1:8080/mcp"
"""MCP endpoint that commands without `--url` use."""
_GATEWAY_COMMANDS: Final = re.compile(
    r"\bfairlead (accounts|approve|call|can|diff|events|explain|leaderboard|login|logout|logs|plan|predict|refresh|"
    r"scores|search|servers|sign-ins|sign-out|tiers|tools|top)\b(?! (?:--url|tools:))"
)
"""Matches commands that send requests to a gateway."""


def add_url(text: str, url: str) -> str:
    """Add `--url` to the `fairlead` commands in a text, unless `url`, an MCP endpoint, is the default."""
    return (
        text
        if url in ("", DEFAULT_URL)
        else _GATEWAY_COMMANDS.sub(lambda word: f"fairlead {word[1]} --url {url}", text)
    )
