"""The requests of the formats' README, run before the demo server that they speak of."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path

import fairlead_gateway.formats
from fairlead_gateway.formats.registry import FORMATS
from fairlead_mcp.errors import ConnectFailed
from fairlead_mcp.http.target import Target
from fairlead_mcp.session import McpSession
from gatewayworld import catalog, running
from restworld import get, post
from toolservers import free_port

README = Path(fairlead_gateway.formats.__file__).with_name("README.md")


async def listed(url: str) -> list[bytes]:
    """The demo server's definitions, once it answers."""
    async with asyncio.timeout(20):
        while True:
            try:
                async with McpSession.over_http(Target.from_url(url)) as session:
                    return [bytes(raw) for raw in await session.list_all("tools/list", timeout=5)]
            except ConnectFailed:
                await asyncio.sleep(0.05)


async def test_every_format_has_a_section_whose_request_is_answered_as_it_says(tmp_path: Path) -> None:
    sections = README.read_text().split("\n## ")[1:]
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "fairlead_cli.demo", "--port", str(port), stderr=asyncio.subprocess.DEVNULL
    )
    shown = []
    try:
        async with running(tmp_path, catalog("demo", url, await listed(url))) as gateway:
            for section in sections:
                request, messages = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", section, re.S))
                answer = (await post(gateway, "/v1/tool-calls", request)).message
                offer = (await get(gateway, f"/v1/tools?format={request['format']}")).message
                assert answer["messages"] == messages
                assert f"`{offer['member']}`" in section
                shown.append(request["format"])
    finally:
        process.terminate()
        await process.wait()
    assert sorted(shown) == sorted(FORMATS)
