"""Lists everything of an endpoint, with the SDK 2.x: python list.py URL auto|legacy. Prints an object of names by list,
or the error of a list.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from mcp import Client


async def names(ask: Callable[[], Awaitable[Any]], member: str) -> list[str] | str:
    """Names of the entries of a list."""
    try:
        return [entry.name for entry in getattr(await ask(), member)]
    except Exception as error:  # noqa: BLE001 - whatever it is, it is printed
        return str(error)[:2000]


async def main() -> None:
    """List with one client."""
    mode: Any = sys.argv[2]
    async with Client(sys.argv[1], mode=mode) as client:
        found = {
            "tools": await names(client.list_tools, "tools"),
            "prompts": await names(client.list_prompts, "prompts"),
            "resources": await names(client.list_resources, "resources"),
            "templates": await names(client.list_resource_templates, "resource_templates"),
        }
    print(json.dumps(found))  # noqa: T201 - its result


asyncio.run(main())
