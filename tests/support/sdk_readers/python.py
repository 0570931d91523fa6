"""Reads an endpoint with the official SDK of Python, of either major version:

python python.py list URL MODE              prints names by list, or the error of a list
python python.py call URL MODE TOOL CORPUS  calls a tool once for each result of a file, and prints the indices of those
                                            that were refused, with the errors

MODE is legacy or auto; version 1 has only legacy.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any


@asynccontextmanager
async def connected(url: str, mode: Any) -> AsyncIterator[Any]:
    """A session of the installed SDK."""
    if version("mcp").startswith("1."):
        from mcp import ClientSession
        from mcp.client.streamable_http import streamablehttp_client  # type: ignore[attr-defined]  # of 1.x alone

        async with streamablehttp_client(url) as (reads, writes, _), ClientSession(reads, writes) as session:
            await session.initialize()
            yield session
    else:
        from mcp import Client

        async with Client(url, mode=mode) as client:
            yield client


async def names(ask: Callable[[], Awaitable[Any]], *members: str) -> list[str] | str:
    """Names of a list's entries. The list is in the first member that exists."""
    try:
        answer = await ask()
        return [entry.name for entry in next(getattr(answer, member) for member in members if hasattr(answer, member))]
    except Exception as error:  # noqa: BLE001 - whatever it is, it is printed
        return str(error)[:2000]


async def lists(session: Any) -> dict[str, list[str] | str]:
    """Names by list."""
    return {
        "tools": await names(session.list_tools, "tools"),
        "prompts": await names(session.list_prompts, "prompts"),
        "resources": await names(session.list_resources, "resources"),
        "templates": await names(session.list_resource_templates, "resource_templates", "resourceTemplates"),
    }


async def refusals(session: Any, tool: str, corpus: str) -> list[tuple[int, str]]:
    """Indices and errors of the results that the SDK rejected."""
    refused = []
    for index, result in enumerate(json.loads(Path(corpus).read_text())):  # noqa: ASYNC240 - nothing else runs
        try:
            await session.call_tool(tool, {"result": result})
        except Exception as error:  # noqa: BLE001 - whatever it is, it is printed
            refused.append((index, str(error)[:300]))
    return refused


async def main(verb: str, url: str, mode: str, *words: str) -> None:
    """Read with one session."""
    async with connected(url, mode) as session:
        answer = await (lists(session) if verb == "list" else refusals(session, *words))
    print(json.dumps(answer))  # noqa: T201 - its result


asyncio.run(main(*sys.argv[1:]))
