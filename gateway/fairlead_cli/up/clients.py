"""The lines that connect a client to a running gateway, ready to be pasted. Pure."""

from __future__ import annotations

import json
import shlex


def client_lines(url: str) -> list[tuple[str, str]]:
    """Name of a client and what to run, or to put into its configuration."""
    cursor = json.dumps({"mcpServers": {"fairlead": {"url": url}}})
    word = shlex.quote(url)  # zsh takes the brackets of an IPv6 address for a pattern
    return [
        ("Claude Code", f"claude mcp add --transport http fairlead {word}"),
        ("Cursor", f"~/.cursor/mcp.json: {cursor}"),
        ("Inspector", f"npx @modelcontextprotocol/inspector --cli {word} --method tools/list"),
        ("Fairlead", "fairlead tools" if url.endswith(":8080/mcp") else f"fairlead tools --url {word}"),
    ]


def model_lines(base_url: str, model: str) -> list[tuple[str, str]]:
    """How a client of a model's API is connected; nothing without such endpoints. An empty `model` is any of them."""
    return [("OpenAI SDK", f"base_url={base_url} model={model or 'NAME'}")] if base_url else []
