"""Code snippets that call a tool by curl, Python and the `fairlead` command. No I/O."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any, Final

import msgspec

_PYTHON_WITHOUT_KEY: Final = """\
import asyncio

from mcp import Client


async def main() -> None:
    async with Client({url!r}) as client:
        print(await client.call_tool({tool!r}, {arguments!r}))


asyncio.run(main())"""
_PYTHON_WITH_KEY: Final = """\
import asyncio
import os

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


async def main() -> None:
    headers = {{"Authorization": "Bearer " + os.environ["FAIRLEAD_TOKEN"]}}
    async with httpx2.AsyncClient(headers=headers) as http:
        async with Client(streamable_http_client({url!r}, http_client=http)) as client:
            print(await client.call_tool({tool!r}, {arguments!r}))


asyncio.run(main())"""


class CallSnippet(msgspec.Struct, frozen=True):
    """Code snippet to copy."""

    title: str
    text: str


def snippets(base_url: str, tool: str, arguments: Mapping[str, Any], *, keyed: bool) -> tuple[CallSnippet, ...]:
    """Make the snippets for a tool of the gateway at `base_url`. `keyed` adds the API key in `FAIRLEAD_TOKEN`."""
    json_text = json.dumps(arguments, ensure_ascii=False)
    body = json.dumps(
        {
            "format": "mcp",
            "message": [
                {"jsonrpc": "2.0", "id": "1", "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
            ],
        },
        ensure_ascii=False,
    )
    key_option = ' \\\n  -H "Authorization: Bearer $FAIRLEAD_TOKEN"' if keyed else ""
    python = (_PYTHON_WITH_KEY if keyed else _PYTHON_WITHOUT_KEY).format(
        url=f"{base_url}/mcp", tool=tool, arguments=dict(arguments)
    )
    cli = (
        f"fairlead call {shlex.quote(tool)} --arguments {shlex.quote(json_text)} --url {shlex.quote(base_url + '/mcp')}"
    )
    return (
        CallSnippet(
            "curl",
            f"curl {shlex.quote(base_url + '/v1/tool-calls')}{key_option} \\\n"
            f"  -H 'Content-Type: application/json' \\\n  -d {shlex.quote(body)}",
        ),
        CallSnippet("Python", python),
        CallSnippet("Command line", cli),
    )
