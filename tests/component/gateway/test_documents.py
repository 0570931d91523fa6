"""Documents in a directory: read, replaced, withdrawn, broken, cached."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import pytest

from fairlead_api.documents.rules import Rules, Tier
from fairlead_app.call_path import ServerAccess
from fairlead_app.compose import CatalogFeed, compose
from fairlead_app.gateway import Gateway
from fairlead_app.settings import Settings
from fairlead_gateway.catalog.cache import SnapshotCache
from fairlead_gateway.catalog.directory import DirectoryCredentials, DirectorySource
from gatewayworld import (
    Ask,
    ask,
    calling,
    catalog,
    entry,
    modern,
    publish,
    running,
    scrape,
    wait_for_snapshots,
    withdraw,
)
from toolservers import modern_server
from waiting import eventually


async def names(gateway: Gateway, target: str = "/mcp") -> list[str]:
    answer = await ask(gateway, modern("tools/list").to(target))
    return [tool["name"] for tool in answer.message["result"]["tools"]]


async def test_a_new_a_changed_and_a_withdrawn_document_change_the_list(tmp_path: Path) -> None:
    documents = tmp_path / "documents"
    document = catalog("one", "http://127.0.0.1:1/mcp", ["a"])
    async with running(tmp_path, document) as gateway:
        assert await names(gateway) == ["one__a"]
        publish(documents, catalog("two", "http://127.0.0.1:1/mcp", ["b"]))
        await wait_for_snapshots(gateway, 2)
        assert await names(gateway) == ["one__a", "two__b"]
        publish(documents, catalog("one", "http://127.0.0.1:1/mcp", ["c", "d"]))
        await wait_for_snapshots(gateway, 3)
        assert await names(gateway) == ["one__c", "one__d", "two__b"]
        withdraw(documents, document)
        await wait_for_snapshots(gateway, 4)
        assert await names(gateway) == ["two__b"]


async def test_a_nudge_has_the_directory_looked_at_at_once(tmp_path: Path) -> None:
    nudge = asyncio.Event()
    source = DirectorySource(tmp_path / "documents", nudge=nudge, poll=60)
    publish(tmp_path / "documents", catalog("one", "http://127.0.0.1:1/mcp", ["a"]))
    servers = ServerAccess(credentials=DirectoryCredentials(tmp_path / "credentials"))
    gateway = compose(Settings.of(port=0, metrics_port=0), CatalogFeed(source=source), servers)
    await gateway.start()
    try:
        await wait_for_snapshots(gateway, 1)
        publish(tmp_path / "documents", catalog("one", "http://127.0.0.1:1/mcp", ["b"]))
        nudge.set()
        await wait_for_snapshots(gateway, 2)
        assert await names(gateway) == ["one__b"]
    finally:
        await gateway.stop(0)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"kind":"catalog","version":99}', b'{"kind":"else","version":1}', b"\xff\xfe"]
)
async def test_of_a_broken_document_the_last_good_version_stays(tmp_path: Path, content: bytes) -> None:
    document = catalog("one", "http://127.0.0.1:1/mcp", ["a"])
    async with running(tmp_path, document) as gateway:
        (file,) = (tmp_path / "documents").glob("*.json")
        file.write_bytes(content)
        await eventually(lambda: bool(gateway.snapshots.broken))
        assert await names(gateway) == ["one__a"]
        publish(tmp_path / "documents", catalog("one", "http://127.0.0.1:1/mcp", ["b"]))
        await wait_for_snapshots(gateway, 2)
        assert await names(gateway) == ["one__b"]
        assert gateway.snapshots.broken == {}


async def test_a_document_that_was_never_good_holds_nothing_up(tmp_path: Path) -> None:
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "bad.json").write_bytes(b"no")
    async with running(tmp_path, catalog("one", "http://127.0.0.1:1/mcp", ["a"])) as gateway:
        assert await names(gateway) == ["one__a"]
        assert list(gateway.snapshots.broken) == ["bad"]


async def test_a_directory_that_goes_away_leaves_the_last_catalog(tmp_path: Path) -> None:
    async with running(tmp_path, catalog("one", "http://127.0.0.1:1/mcp", ["a"])) as gateway:
        (tmp_path / "documents").rename(tmp_path / "elsewhere")
        await eventually(lambda: gateway.snapshots.stale)
        assert await names(gateway) == ["one__a"]
        assert gateway.readiness().ready
        (tmp_path / "elsewhere").rename(tmp_path / "documents")
        await eventually(lambda: not gateway.snapshots.stale)


async def test_a_gateway_that_starts_without_its_source_serves_what_it_served_before(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    async with modern_server() as server:
        async with running(tmp_path, catalog("one", server.url, ["a"]), cache_dir=cache) as gateway:
            assert not gateway.snapshots.stale
        lost = compose(
            Settings.of(port=0, metrics_port=0, cache_dir=cache),
            CatalogFeed(source=DirectorySource(tmp_path / "nowhere")),
            ServerAccess(credentials=DirectoryCredentials(tmp_path / "credentials")),
        )
        await lost.start()
        try:
            await wait_for_snapshots(lost, 1)
            assert await names(lost) == ["one__a"]
            assert (await ask(lost, calling("one__a"))).message["result"]["isError"] is False
            ready = await ask(lost, Ask(verb="GET", body=b"", target="/readyz"))
            assert (ready.status, ready.message["stale"]) == (200, True)
        finally:
            await lost.stop(0)


async def test_documents_withdrawn_meanwhile_are_not_served_from_the_cache_once_the_source_answers(
    tmp_path: Path,
) -> None:
    SnapshotCache(tmp_path / "cache").write({"gone": b'{"kind":"catalog"}', "x": b"no"}, 1.0)
    async with running(tmp_path, catalog("one", "http://127.0.0.1:1/mcp", ["a"])) as first:
        raw = dict(first.snapshots._raw_documents)
    SnapshotCache(tmp_path / "cache").write(raw, 1.0)
    empty = tmp_path / "empty"
    empty.mkdir()
    async with running(empty, cache_dir=tmp_path / "cache") as gateway:
        await eventually(lambda: not gateway.snapshot.servers and not gateway.snapshots.stale)
        assert await names(gateway) == []


def test_the_snapshot_cache_reads_documents_as_they_were_written(tmp_path: Path) -> None:
    documents = {"one": b"\n{}\xff\n", "none": b"", "two": b"x" * 100_000}
    SnapshotCache(tmp_path).write(documents, 12.5)
    cached = SnapshotCache(tmp_path).read()
    assert cached is not None
    assert (cached.documents, cached.saved_at) == (documents, 12.5)


CACHED = b'{"saved_at":1,"format":%d,"lengths":{"gone":%d}}\n{"kind":"catalog"}'
CACHES = {
    "empty": b"",
    "no text": b"\xc1\n",
    "of another kind": b"[1]\n",
    "of another format": CACHED % (3, 18),
    "cut off": (CACHED % (2, 18))[:-1],
    "longer than it says": CACHED % (2, 17),
}


@pytest.mark.parametrize("content", CACHES.values(), ids=CACHES)
async def test_a_cache_that_cannot_be_read_is_not_used(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "documents.cache").write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert SnapshotCache(tmp_path / "cache").read() is None
    assert "not used" in caplog.text
    document = catalog("one", "http://127.0.0.1:1/mcp", ["a"])
    async with running(tmp_path, document, cache_dir=tmp_path / "cache") as gateway:
        assert await names(gateway) == ["one__a"]


async def test_schemas_that_take_long_to_compile_are_compiled_before_any_call(tmp_path: Path) -> None:
    properties = {f"p{number}": {"type": "string", "description": "d" * 50} for number in range(200)}
    large = entry({"name": "large", "inputSchema": {"type": "object", "properties": properties}})
    async with running(tmp_path, catalog("one", "http://127.0.0.1:1/mcp", [large, "small"])) as gateway:
        assert gateway.metrics.get_sample_value("fairlead_schemas_compiled") == 1


async def test_a_cache_that_cannot_be_written_is_a_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING):
        async with running(
            tmp_path, catalog("one", "http://127.0.0.1:1/mcp", ["a"]), cache_dir=tmp_path / "file" / "cache"
        ) as gateway:
            assert await names(gateway) == ["one__a"]
    assert "is not used: " in caplog.text


async def test_tiers_have_endpoints_as_soon_as_the_rules_name_them(tmp_path: Path) -> None:
    async with running(tmp_path, catalog("one", "http://127.0.0.1:1/mcp", ["a"])) as gateway:
        assert (await ask(gateway, modern("tools/list").to("/mcp/fast"))).status == 404
        publish(tmp_path / "documents", Rules(tiers=(Tier(name="fast"),)))
        await wait_for_snapshots(gateway, 2)
        assert await names(gateway, "/mcp/fast") == ["one__a"]


async def test_a_swap_leaves_connections_and_calls_of_other_servers_alone(tmp_path: Path) -> None:
    async with modern_server() as server:
        document = catalog("one", server.url, ["a"])
        async with running(tmp_path, document) as gateway:
            assert (await ask(gateway, calling("one__a"))).message["result"]["isError"] is False
            for n in range(3):
                publish(tmp_path / "documents", catalog("two", f"http://127.0.0.1:{n + 1}/mcp", ["b"]))
                await wait_for_snapshots(gateway, n + 2)
                assert (await ask(gateway, calling("one__a"))).message["result"]["isError"] is False
            assert server.opened == 1


async def test_a_server_that_moves_is_called_at_its_new_address(tmp_path: Path) -> None:
    async with modern_server() as old, modern_server() as new:
        async with running(tmp_path, catalog("one", old.url, ["a"])) as gateway:
            await ask(gateway, calling("one__a"))
            publish(tmp_path / "documents", catalog("one", new.url, ["a"]))
            await wait_for_snapshots(gateway, 2)
            await ask(gateway, calling("one__a"))
        assert (len(old.seen), len(new.seen)) == (1, 1)


async def test_metrics_tell_of_calls_and_catalog(tmp_path: Path) -> None:
    async with modern_server() as server, running(tmp_path, catalog("one", server.url, ["a"])) as gateway:
        await ask(gateway, calling("one__a"))
        await ask(gateway, calling("one__nope"))
        await ask(gateway, Ask(verb="GET", body=b""))
        text = await scrape(gateway)
    labels = 'error_type="",fairlead_server="default/one",gen_ai_tool_name="a"'
    count = f'mcp_server_operation_duration_seconds_count{{{labels},mcp_method_name="tools/call"}} 1.0'
    assert count in text
    assert f'bucket{{{labels},le="+Inf",mcp_method_name="tools/call"}} 1.0' in text
    assert 'error_type="-32602",fairlead_server="",gen_ai_tool_name="",' in text
    for line in (
        "fairlead_catalog_servers 1.0",
        "fairlead_catalog_tools 1.0",
        "fairlead_catalog_stale 0.0",
        "fairlead_catalog_swaps_total 1.0",
        "fairlead_calls_in_flight 0.0",
        'fairlead_requests_rejected_total{code="405"} 1.0',
        'fairlead_requests_rejected_total{code="400"} 1.0',
        'fairlead_upstream_connections{fairlead_server="default/one",state="idle"} 1.0',
    ):
        assert line in text.splitlines(), line


async def test_the_operations_port_serves_nothing_of_what_clients_ask_for(tmp_path: Path) -> None:
    async with running(tmp_path, catalog("one", "http://127.0.0.1:1/mcp", ["a"])) as gateway:
        assert {await scrape(gateway, path) for path in ("/other", "/v1/tools")} == {
            "the operations port has no page at this path\n"
        }
        assert "this is the operations port, which has no MCP endpoints" in await scrape(gateway, "/mcp")


async def test_the_operations_port_says_how_the_gateway_is_when_clients_have_all_connections(tmp_path: Path) -> None:
    document = catalog("one", "http://127.0.0.1:1/mcp", ["a"])
    async with running(tmp_path, document, client_connections=1, drain=30.0) as gateway:
        _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        assert (await scrape(gateway, "/healthz"), await scrape(gateway, "/readyz")) == ("ok\n", "serving\n")
        ending = asyncio.create_task(gateway.stop(), name="ending")
        await asyncio.sleep(0)
        assert await scrape(gateway, "/readyz") == "the gateway is stopping\n"
        ending.cancel()
        writer.close()


async def test_a_server_speaks_for_itself_on_its_own_endpoint_and_is_quoted_on_the_merged_one(tmp_path: Path) -> None:
    document = catalog("one", "http://127.0.0.1:1/mcp", ["a"], instructions="Use with care")
    async with running(tmp_path, document) as gateway:
        own = await ask(gateway, modern("server/discover").to("/servers/default/one/mcp"))
        merged = await ask(gateway, modern("server/discover"))
    info = "io.modelcontextprotocol/serverInfo"
    assert own.message["result"]["instructions"] == "Use with care"
    assert own.message["result"]["_meta"][info]["name"] == "raw"
    assert merged.message["result"]["instructions"].endswith("# one (tools one__*)\nUse with care")
    assert merged.message["result"]["_meta"][info]["name"] == "fairlead"
    assert json.loads(own.body)["result"]["supportedVersions"] == ["2026-07-28"]
