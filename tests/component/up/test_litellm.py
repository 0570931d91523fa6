"""A LiteLLM proxy as a source of `fairlead up`, with the router endpoint, as in docs/connect/litellm.md.

Each test runs with a fake proxy, and with a real one if `litellm` is installed (LITELLM_PROGRAM names it). A real proxy
takes ten seconds of processor time to start, so at a merge only two tests use it, which cover all its differences.
"""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

import page_reader
from controlplane import REPOSITORY
from fairlead_cli.up.litellm import litellm_server
from fairlead_operator.local.sources import Sources
from litellmproxies import PROGRAM, Behind, Proxy, item_tool, litellm_proxy, stand_in
from upprocess import Up, fairlead_up, started_up, until_listed
from waiting import until_async

REAL = pytest.mark.skipif(
    PROGRAM is None, reason="no litellm[proxy] here: hack/litellm makes one, or LITELLM_PROGRAM names it"
)
WHEREVER_IT_IS = ["stand-in", pytest.param("real", marks=REAL)]
BY_NIGHT = ["stand-in", pytest.param("real", marks=[REAL, pytest.mark.nightly])]
pytestmark = pytest.mark.timeout(240)

MakeProxy = Callable[[Behind], AbstractAsyncContextManager[Proxy]]


@pytest.fixture(params=BY_NIGHT)
def proxy_of(request: pytest.FixtureRequest, tmp_path: Path) -> MakeProxy:
    return stand_in if request.param == "stand-in" else partial(litellm_proxy, folder=tmp_path)


def blocks(language: str) -> list[str]:
    """Blocks of docs/connect/litellm.md in a language."""
    page = (REPOSITORY / "docs" / "connect" / "litellm.md").read_text()
    return page_reader.blocks(page, language)


def shops() -> Behind:
    return {
        "stock": [
            item_tool("count", "How many of an item are in stock."),
            item_tool("order", "Order more of an item."),
        ],
        "other_shop": [item_tool("count", "How many of an item are in stock elsewhere.")],
    }


def served(proxy: Proxy, cwd: Path, **more: str) -> AbstractAsyncContextManager[Up]:
    env = {"FAIRLEAD_LITELLM_URL": proxy.url, "FAIRLEAD_LITELLM_KEY": proxy.key, "FAIRLEAD_LITELLM_INTERVAL": "10s"}
    return fairlead_up(cwd=cwd, env={**env, **more})


def router(up: Up) -> str:
    return up.url.removesuffix("/mcp") + "/router/mcp"


def content_of(result: Any) -> Any:
    return json.loads(result.content[0].text)


def scrape(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


async def searched_names(client: Client, **filters: Any) -> list[str]:
    answer = content_of(await client.call_tool("search_tools", {"query": "how many in stock", **filters}))
    return [tool["name"] for tool in answer["tools"]]


@pytest.mark.parametrize("proxy_of", WHEREVER_IT_IS, indirect=True)
async def test_tools_behind_a_proxy_are_found_called_and_read_again_and_changes_are_found_by_the_next_poll(
    proxy_of: MakeProxy, tmp_path: Path
) -> None:
    """One test checks both, because a real proxy takes ten seconds of processor time to start."""
    behind = shops()
    async with proxy_of(behind) as proxy, served(proxy, tmp_path) as up:
        await until_listed(up.url, "litellm")
        async with Client(router(up)) as client:
            assert "litellm__stock-count" in await searched_names(client)
            called = await client.call_tool(
                "execute_tool", {"name": "litellm__stock-count", "arguments": {"item": "rope"}}
            )
            assert called.content[0].text == "stock has 42 of rope"  # type: ignore[union-attr]  # a text
            session = (called.meta or {})["fairlead.dev/context"]["sessionId"]
            context = content_of(
                await client.call_tool("retrieve_context", {"session_id": session, "query": "rope in stock"})
            )
            assert "42 of rope" in context["passages"][0]["text"]
        assert proxy.key not in json.dumps(up.events)

        behind["stock"].append(item_tool("recount", "Recount an item."))
        del behind["other_shop"][0]
        async with Client(router(up)) as client:

            async def has_changed() -> bool:
                return set(await searched_names(client, query="count order recount item stock elsewhere")) == {
                    "litellm__stock-count",
                    "litellm__stock-order",
                    "litellm__stock-recount",
                }

            await until_async("the change to be found", has_changed, seconds=60)
        counts = (await asyncio.to_thread(scrape, up.metrics)).splitlines()
        for change, number in (("added", 4.0), ("removed", 1.0), ("modified", 0.0)):
            assert f'fairlead_operator_tool_changes_total{{change="{change}"}} {number}' in counts


async def test_tools_of_one_server_behind_a_proxy_are_searched_by_its_tag(proxy_of: MakeProxy, tmp_path: Path) -> None:
    async with proxy_of(shops()) as proxy, served(proxy, tmp_path) as up:
        await until_listed(up.url, "litellm")
        async with Client(router(up)) as client:
            assert await searched_names(client, tags=["other_shop"]) == ["litellm__other_shop-count"]
            assert set(await searched_names(client, tags=["stock"])) == {"litellm__stock-count", "litellm__stock-order"}


async def test_the_commands_of_the_page_serve_a_proxy_and_search_one_server_behind_it(
    proxy_of: MakeProxy, tmp_path: Path
) -> None:
    (export, command), (search,) = (block.splitlines() for block in blocks("sh"))
    variable = export.removeprefix("export ").partition("=")[0]
    words = command.removeprefix("fairlead up ").split()
    async with proxy_of(shops()) as proxy:
        arguments = [proxy.url if word == "http://localhost:4000" else word for word in words]
        async with fairlead_up(*arguments, cwd=tmp_path, env={variable: proxy.key}) as up:
            await until_listed(up.url, "litellm")
            here = search.replace("localhost:8080", up.url.split("/")[2])
            shell = await asyncio.create_subprocess_shell(here, stdout=asyncio.subprocess.PIPE)
            answer = json.loads((await shell.communicate())[0])
    assert answer["tools"][0]["tool"]["name"] == "litellm__stock-count"
    assert {tag for hit in answer["tools"] for tag in hit["tool"]["tags"]} == {"stock"}


async def test_the_manifest_of_the_page_serves_a_proxy(proxy_of: MakeProxy, tmp_path: Path) -> None:
    (manifest,) = blocks("yaml")
    async with proxy_of(shops()) as proxy:
        text = manifest.replace("http://litellm:4000", proxy.url).replace("sk-example", proxy.key)
        (tmp_path / "litellm.yaml").write_text(text)
        async with fairlead_up("litellm.yaml", cwd=tmp_path) as up:
            assert (await up.ready("default/litellm"))["tools"] == sorted(
                f"litellm__{name}" for name in ("stock-count", "stock-order", "other_shop-count")
            )


def test_the_entry_of_the_page_is_what_the_option_declares(tmp_path: Path) -> None:
    (entry,) = blocks("json")
    (tmp_path / "mcp.json").write_text(entry)
    environ = {"FAIRLEAD_LITELLM_KEY": "sk-example"}
    scan = Sources([tmp_path / "mcp.json"], environ).scan()
    assert scan is not None
    (written,) = scan.contents.servers.values()
    given = litellm_server("http://localhost:4000", environ)
    assert (written.key, written.credential) == (given.key, given.credential)
    assert (written.server.spec.url, written.server.spec.discovery) == (
        given.server.spec.url,
        given.server.spec.discovery,
    )


async def test_a_server_behind_a_proxy_can_be_a_server_of_its_own(proxy_of: MakeProxy, tmp_path: Path) -> None:
    async with proxy_of(shops()) as proxy:
        entry = {"url": f"{proxy.url}/mcp/stock", "apiKey": proxy.key}
        (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"stock": entry}}))
        async with fairlead_up("mcp.json", cwd=tmp_path) as up:
            assert (await up.ready("default/stock"))["tools"] == ["stock__stock-count", "stock__stock-order"]


async def test_the_gateways_own_address_is_refused_as_that_of_a_proxy(tmp_path: Path) -> None:
    async with started_up("--litellm", "http://localhost:8080", cwd=tmp_path) as up:
        assert await up.wait_for_end() == 2
        assert "--litellm names this gateway's own address" in await up.errors()


async def test_a_wrong_key_fails_the_server_and_is_not_shown(proxy_of: MakeProxy, tmp_path: Path) -> None:
    async with proxy_of(shops()) as proxy, served(proxy, tmp_path, FAIRLEAD_LITELLM_KEY="sk-wrong-" + "0" * 32) as up:
        await up.server("default/litellm", "failed")
        assert "sk-wrong" not in json.dumps(up.events)
