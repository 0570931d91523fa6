"""Lines with which clients connect to a running gateway, ready to paste. No I/O."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Final

from fairlead_api.client_files.known_clients import CLIENTS

KEY_VARIABLE: Final = "FAIRLEAD_TOKEN"
"""Environment variable with a key, which the commands of `fairlead` read too."""
_MAKE_KEY: Final = "fairlead keys create NAME"


def keys_command(key_file: Path | None) -> str:
    """Command that makes a key in the gateway's own file of keys; the file is named because `fairlead keys` writes to
    the current folder otherwise."""
    return _MAKE_KEY if key_file is None else f"{_MAKE_KEY} --file {shlex.quote(str(key_file.absolute()))}"


def client_lines(
    url: str,
    *,
    wants_key: bool = False,
    signs_in: bool = False,
    make_key: str = _MAKE_KEY,
) -> list[tuple[str, str]]:
    """Names of clients, each with the command or configuration that connects it. With `wants_key`, the gateway needs a
    credential, which each client takes from KEY_VARIABLE. The Inspector is left out then, because its releases for
    Node.js 20 cannot send a credential. With `signs_in`, people sign clients in with only the URL, and only the
    commands of `fairlead` need a key. `make_key` is the command for a key that this gateway takes.
    """
    has_key_in_file = wants_key and not signs_in
    entry = CLIENTS["cursor"].entry_for(url, KEY_VARIABLE if has_key_in_file else None)
    word = shlex.quote(url)  # quoted, because zsh treats the brackets of an IPv6 address as a pattern
    header = f' --header "Authorization: Bearer ${KEY_VARIABLE}"' if has_key_in_file else ""
    purpose = "for fairlead" if signs_in else "first"
    key = ("Key", f"export {KEY_VARIABLE}=… {purpose}; `{make_key}` makes a key")
    inspector = ("Inspector", f"npx @modelcontextprotocol/inspector --cli {word} --method tools/list")
    return [
        *([key] if has_key_in_file else []),
        ("Claude Code", f"claude mcp add --transport http fairlead {word}{header}"),
        ("Cursor", f"~/.cursor/mcp.json: {json.dumps({'mcpServers': {'fairlead': entry}})}"),
        *([] if wants_key else [inspector]),
        *([key] if wants_key and signs_in else []),
        ("Fairlead", "fairlead tools" if url.endswith(":8080/mcp") else f"fairlead tools --url {word}"),
    ]


def model_lines(base_url: str, model: str) -> list[tuple[str, str]]:
    """Connection settings of a client of the model endpoints; empty without such endpoints. The model is NAME if the
    client may choose any model.
    """
    return [("OpenAI SDK", f"base_url={base_url} model={model or 'NAME'}")] if base_url else []
