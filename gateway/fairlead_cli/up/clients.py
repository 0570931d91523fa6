"""The lines that connect a client to a running gateway, ready to be pasted. Pure."""

from __future__ import annotations

import json
import shlex
from typing import Final

from fairlead_api.client_files.known_clients import CLIENTS

KEY_VARIABLE: Final = "FAIRLEAD_TOKEN"
"""Environment variable with a key, which the verbs of `fairlead` read too."""


def client_lines(url: str, *, wants_key: bool = False) -> list[tuple[str, str]]:
    """Name of a client and what to run, or to put into its configuration. `wants_key`: the gateway answers nobody
    without a credential, and each of them takes it from KEY_VARIABLE. The Inspector is left out then: releases that
    Node.js 20 gets take none.
    """
    entry = CLIENTS["cursor"].entry_for(url, KEY_VARIABLE if wants_key else None)
    word = shlex.quote(url)  # zsh takes the brackets of an IPv6 address for a pattern
    header = f' --header "Authorization: Bearer ${KEY_VARIABLE}"' if wants_key else ""
    key = ("Key", f"export {KEY_VARIABLE}=… first; `fairlead keys create NAME` makes one")
    inspector = ("Inspector", f"npx @modelcontextprotocol/inspector --cli {word} --method tools/list")
    return [
        *([key] if wants_key else []),
        ("Claude Code", f"claude mcp add --transport http fairlead {word}{header}"),
        ("Cursor", f"~/.cursor/mcp.json: {json.dumps({'mcpServers': {'fairlead': entry}})}"),
        *([] if wants_key else [inspector]),
        ("Fairlead", "fairlead tools" if url.endswith(":8080/mcp") else f"fairlead tools --url {word}"),
    ]


def model_lines(base_url: str, model: str) -> list[tuple[str, str]]:
    """How a client of a model's API is connected; nothing without such endpoints. An empty `model` is any of them."""
    return [("OpenAI SDK", f"base_url={base_url} model={model or 'NAME'}")] if base_url else []
