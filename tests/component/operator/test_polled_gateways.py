"""A gateway that announces no changes, such as LiteLLM's proxy, in a cluster, with the manifest of
docs/connect/litellm.md."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from controlplane import REPOSITORY
from litellmproxies import Behind, item_tool, stand_in
from operatorworld import World, running
from page_reader import blocks

pytestmark = pytest.mark.timeout(120)


def manifests(url: str, key: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Secret and McpServer of the page, for a local proxy."""
    (block,) = blocks((REPOSITORY / "docs" / "connect" / "litellm.md").read_text(), "yaml")
    text = (
        block.replace("http://litellm:4000", url).replace("sk-example", key).replace("interval: 30s", "interval: 10s")
    )
    secret, server = yaml.safe_load_all(text)
    return secret, server


def tagged_tools(world: World) -> dict[str, tuple[str, ...]]:
    """Tools of the catalog with their tags."""
    catalog = world.catalog("litellm")
    return {tool.name: tool.tags for tool in catalog.tools} if catalog is not None else {}


async def test_a_proxy_is_polled_with_its_key_and_a_new_tool_is_published(world: World) -> None:
    behind: Behind = {"stock": [item_tool("count", "Count.")], "shop": [item_tool("count", "Count.")]}
    async with stand_in(behind) as proxy, running(world):
        secret, server = manifests(proxy.url, proxy.key)
        status, answer = world.request("POST", world.path("secrets"), secret)
        assert status == 201, answer
        world.create("litellm", server["spec"])
        await world.until("Ready", lambda: world.is_("litellm", "Ready", "True"))
        assert tagged_tools(world) == {"stock-count": ("stock",), "shop-count": ("shop",)}
        behind["shop"].append(item_tool("order", "Order."))
        await world.until("the new tool", lambda: tagged_tools(world).get("shop-order") == ("shop",), seconds=40)
        assert not any(proxy.key.encode() in document for document in world.documents().values())
