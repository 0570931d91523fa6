"""Lists everything of an endpoint, with the SDK 1.x: python list.py URL. Prints an object of names by list, or the
error of a list.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client  # type: ignore[attr-defined]  # of 1.x alone


async def names(ask: Callable[[], Awaitable[Any]], member: str) -> list[str] | str:
    """Names of the entries of a list."""
    try:
        return [entry.name for entry in getattr(await ask(), member)]
    except Exception as error:  # noqa: BLE001 - whatever it is, it is printed
        return str(error)[:2000]


async def main() -> None:
    """List with one session."""
    async with streamablehttp_client(sys.argv[1]) as (read, write, _), ClientSession(read, write) as session:
        await session.initialize()
        found = {
            "tools": await names(session.list_tools, "tools"),
            "prompts": await names(session.list_prompts, "prompts"),
            "resources": await names(session.list_resources, "resources"),
            "templates": await names(session.list_resource_templates, "resourceTemplates"),
        }
    print(json.dumps(found))  # noqa: T201 - its result


asyncio.run(main())
