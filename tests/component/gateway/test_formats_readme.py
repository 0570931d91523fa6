"""The pages about formats: their examples are sent to a gateway with the demo server, and the answers compared."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fairlead_formats.registry import FORMATS
from fairlead_mcp.http.target import Target
from fairlead_mcp.session import McpSession
from gatewayworld import catalog, running
from page_reader import blocks
from restworld import get, post
from serverprocesses import demo_server

DOCS = Path(__file__).parents[3] / "docs" / "connect"
TOOL = "demo__get_stock"


async def list_tools(url: str) -> list[bytes]:
    """The tools that a server lists."""
    async with McpSession.over_http(Target.from_url(url)) as session:
        return [bytes(raw) for raw in await session.list_all("tools/list", timeout=20)]


def definitions(tools: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The individual definitions, also those in Gemini's groups."""
    for tool in tools:
        yield from tool.get("functionDeclarations", [tool])


def test_every_format_has_a_page_that_the_readme_leads_to() -> None:
    readme = (DOCS / "formats.md").read_text()
    pages = {page.stem for page in (DOCS / "formats").glob("*.md")}
    assert pages == set(FORMATS)
    assert set(re.findall(r"\(formats/([\w-]+)\.md\)", readme)) == pages


def test_the_python_of_the_page_runs() -> None:
    (program,) = blocks((DOCS / "formats.md").read_text(), "python")
    exec(compile(program, "formats.md", "exec"), {})  # noqa: S102  # our own page


async def test_every_page_shows_tools_message_and_answer_as_a_gateway_gives_them(tmp_path: Path) -> None:
    async with demo_server() as url, running(tmp_path, catalog("demo", url, await list_tools(url))) as gateway:
        for name in FORMATS:
            page = (DOCS / "formats" / f"{name}.md").read_text()
            (target,) = re.findall(r"curl -s 'http://127.0.0.1:8080(/v1/tools\S*)'", page)
            tool, request, messages = (json.loads(block) for block in blocks(page, "json"))
            offer = (await get(gateway, target)).message
            assert offer["format"] == request["format"] == name
            assert f"belongs at `{offer['member']}`" in page
            assert [definition for definition in definitions(offer["tools"]) if TOOL in json.dumps(definition)] == [
                tool
            ]
            assert (await post(gateway, "/v1/tool-calls", request)).message["messages"] == messages
