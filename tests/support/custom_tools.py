"""Custom tools for tests: the one of the documentation, collections of handlers, and the text of an answer.

async with running(tmp_path, custom=of(handler)) as gateway:
    assert text(await ask(gateway, calling("handler"))) == "..."
"""

from __future__ import annotations

import asyncio
from typing import Any

from fairlead_gateway import CustomTools


def lookup_user() -> CustomTools:
    """The example of the documentation: an asynchronous handler that answers in MCP's own form."""
    users = {"ada@example.com": {"id": 7, "name": "Ada"}}

    async def handler(arguments: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        user = users[arguments["email"]]
        return {"content": [{"type": "text", "text": f"{user['id']} {user['name']}"}]}

    tools = CustomTools()
    tools.register(
        name="lookup_user",
        description="Look up a user by email address",
        input_schema={
            "type": "object",
            "properties": {"email": {"type": "string", "description": "The user's email address"}},
            "required": ["email"],
        },
        handler=handler,
    )
    return tools


def of(*handlers: Any) -> CustomTools:
    tools = CustomTools()
    for handler in handlers:
        tools.add(handler)
    return tools


def text(answer: Any) -> str:
    return str(answer.message["result"]["content"][0]["text"])
