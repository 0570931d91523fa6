"""An OpenAI-compatible chat endpoint over HTTP, whose answers a test decides."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Said = Callable[[dict[str, Any]], Any]
"""From a request's body to the text that the model writes, or to the whole message."""


@dataclass
class ChatEndpoint:
    """An endpoint that answers with `statuses` first, and then with what `says` makes of a request."""

    says: Said = lambda body: "NONE"
    url: str = ""
    statuses: list[int] = field(default_factory=list)
    raw: bytes | None = None
    """Body of every answer, in place of a completion."""
    hangs: bool = False
    seen: list[dict[str, Any]] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.seen.append(body)
        self.keys.add(request.headers.get("Authorization", ""))
        if self.statuses:
            return web.json_response({"error": {"message": "not now"}}, status=self.statuses.pop(0))
        if self.hangs:
            await asyncio.Event().wait()
        if self.raw is not None:
            return web.Response(body=self.raw, content_type="application/json")
        said = self.says(body)
        message = {"role": "assistant", "content": said} if isinstance(said, str) else said
        return web.json_response({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})


def fenced(body: dict[str, Any]) -> tuple[str, list[str]]:
    """The word that fences the results of a request, and these."""
    asked = body["messages"][1]["content"]
    (nonce,) = re.findall(r"^BEGIN (\w+) 1$", asked, re.MULTILINE)
    return nonce, re.findall(rf"^BEGIN {nonce} \d+\n(.*?)\nEND {nonce} \d+$", asked, re.MULTILINE | re.DOTALL)


@contextlib.asynccontextmanager
async def chatting(says: Said | None = None) -> AsyncIterator[ChatEndpoint]:
    """An endpoint on loopback."""
    endpoint = ChatEndpoint() if says is None else ChatEndpoint(says)
    application = web.Application(client_max_size=16 << 20)
    application.router.add_post("/v1/chat/completions", endpoint.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    endpoint.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield endpoint
    finally:
        await runner.cleanup()
