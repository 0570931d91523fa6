"""Sample McpServers of the bundled servers: each is valid, and names an existing server and its tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead_api.latency_metadata import authored_latency
from fairlead_api.load import load_paths
from fairlead_api.v1alpha1.mcpserver import McpServer
from fairlead_servers.limited_process import MAX_MEMORY, MAX_PROCESSES
from fairlead_servers.table import SERVERS

ROOT = Path(__file__).parents[3]
SAMPLES = ROOT / "crds" / "samples" / "servers"
PAGE = ROOT / "docs" / "operate" / "scores.md"
SERVER_BYTES = 256 << 20
"""Bytes for the server itself, which needs 96 MiB while it has three pages of 2 MB."""


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
async def test_a_sample_is_valid_and_declares_each_tool_of_its_server(path: Path, tmp_path: Path) -> None:
    loaded = load_paths([path])
    assert not loaded.problems
    (server,) = loaded.of_kind(McpServer)
    row = SERVERS[path.stem]
    assert server.spec.image is not None
    assert (server.metadata.name, server.spec.image.args[0]) == (row.name, row.name)
    assert server.spec.unrestricted_pod_template is None
    listed = {tool.name: tool for tool in await row.definition().make(tmp_path, row.name, {}, {}).list_tools()}
    assert {tool.name for tool in server.spec.tools} == listed.keys()
    for tool in server.spec.tools:
        assert tool.latency is not None
        assert tool.latency.estimated is not None
        assert tool.categories
        authored = authored_latency(listed[tool.name].model_dump_json(by_alias=True, exclude_none=True).encode())
        assert authored.unusable == ()
        assert authored.min_tier == tool.min_tier
        assert authored.latency.estimated_duration_ms == tool.latency.estimated.milliseconds
        longest = authored.latency.max_duration_ms
        assert longest is not None
        assert longest >= (tool.latency.max or tool.latency.estimated).milliseconds, "nothing is cut off sooner"


def test_the_page_of_the_leaderboard_lists_the_samples_by_category() -> None:
    categories: dict[str, tuple[set[str], list[str]]] = {}
    for path in sorted(SAMPLES.glob("*.yaml")):
        (server,) = load_paths([path]).of_kind(McpServer)
        for tool in server.spec.tools:
            for category in tool.categories:
                tags, names = categories.setdefault(category, (set(), []))
                tags.update(tool.tags)
                names.append(f"`{server.metadata.name}__{tool.name}`")
    rows = [
        f"| {name} | {', '.join(sorted(tags))} | {', '.join(tools)} |"
        for name, (tags, tools) in sorted(categories.items())
    ]
    assert "\n".join(["|---|---|---|", *rows, ""]) in PAGE.read_text()


def test_the_pod_of_web_search_has_memory_for_all_pages_that_are_read_at_once() -> None:
    (server,) = load_paths([SAMPLES / "web-search.yaml"]).of_kind(McpServer)
    assert server.spec.resources is not None
    limit = server.spec.resources.to_wire()["limits"]["memory"]
    assert limit.endswith("Mi")
    assert int(limit[:-2]) << 20 >= MAX_PROCESSES * MAX_MEMORY + SERVER_BYTES
