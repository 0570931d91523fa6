"""Aggregates that an installation may publish: recorded only if enabled, shown before publication, sent nowhere."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw
from typer.testing import CliRunner, Result

from fairlead_api.documents.catalog import ToolEntry
from fairlead_app.gateway import Gateway
from fairlead_cli.app import app
from gatewayworld import ask, calling, catalog, entry, publish, running, wait_for_snapshots
from rawserver import RawServer
from restworld import get, problem
from toolservers import modern_server, tool

INFO = Raw(b'{"name":"mcp-knots","version":"2.1"}')


def knot(digest: str) -> ToolEntry:
    return msgspec.structs.replace(entry(tool("knot")), hash=digest)


def shop(server: RawServer, digest: str = "sha256:1") -> Any:
    return catalog("shop", server.url, [knot(digest), "splice"], namespace="secret-team", server_info=INFO)


async def run(gateway: Gateway | None, *words: str) -> Result:
    url = [] if gateway is None else ["--url", f"http://127.0.0.1:{gateway.port}/mcp"]
    return await asyncio.to_thread(lambda: CliRunner().invoke(app, ["telemetry", *words, *url]))


async def test_aggregates_are_kept_on_request_alone_and_the_command_says_what_would_be(tmp_path: Path) -> None:
    async with modern_server() as server, running(tmp_path, shop(server)) as gateway:
        await ask(gateway, calling("shop__knot"))
        refused = await get(gateway, "/v1/aggregates")
        shown = await run(gateway, "show")
        exported = await run(gateway, "export", str(tmp_path / "x.json"))
        meter = gateway.outbox.samples.meter(gateway.snapshot.merged["shop__knot"][0].key, "knot")
    assert problem(refused) == (409, "NOT_KEPT")
    assert "It has no arguments" in shown.stdout
    assert "FAIRLEAD_AGGREGATES=true" in shown.output + str(shown.exception)
    assert exported.exit_code != 0
    assert not (tmp_path / "x.json").exists()
    assert meter.tally is None


async def test_an_export_has_how_long_calls_took_and_nothing_of_who_made_them_or_where(tmp_path: Path) -> None:
    file = tmp_path / "ours.json"
    async with modern_server() as server, running(tmp_path, shop(server), aggregates=True) as gateway:
        for _ in range(3):
            await ask(gateway, calling("shop__knot", {"password": "hunter2"}).with_headers(user_agent="agent-smith"))
        shown = await run(gateway, "show")
        done = await run(gateway, "export", str(file))
        again = await run(gateway, "export", str(file))
        address = server.url
    assert done.exit_code == 0, done.output
    assert "Nothing was sent" in done.stdout
    assert again.exit_code != 0, "a file is never overwritten"
    text = file.read_text()
    (only,) = json.loads(text)["tools"]
    assert (only["server"], only["version"], only["tool"], only["definition"]) == (
        "mcp-knots",
        "2.1",
        "knot",
        "sha256:1",
    )
    assert (only["environment"], sum(only["counts"])) == ("cluster", 3)
    private = ("hunter2", "password", "agent-smith", "secret-team", "127.0.0.1", address, str(gateway.port), "shop")
    assert [word for word in private if word in text] == []
    assert "mcp-knots" in shown.stdout
    assert "It has no arguments" in shown.stdout


async def test_another_definition_is_counted_apart_and_files_add_up(tmp_path: Path) -> None:
    async with modern_server() as server, running(tmp_path, shop(server), aggregates=True) as gateway:
        await ask(gateway, calling("shop__knot"))
        await run(gateway, "export", str(tmp_path / "one.json"))
        publish(tmp_path / "documents", shop(server, "sha256:2"))
        await wait_for_snapshots(gateway, 2)
        await ask(gateway, calling("shop__knot"))
        await ask(gateway, calling("shop__knot"))
        aggregates = (await get(gateway, "/v1/aggregates")).message
    assert [(row["definition"], sum(row["counts"])) for row in aggregates["tools"]] == [("sha256:2", 2)]
    other = tmp_path / "two.json"
    other.write_text(json.dumps({**aggregates, "origins": ["another"]}))
    same = tmp_path / "same.json"
    same.write_text((tmp_path / "one.json").read_text())
    done = await run(None, "merge", str(tmp_path / "one.json"), str(other), "--into", str(tmp_path / "all.json"))
    twice = await run(None, "merge", str(tmp_path / "one.json"), str(same), "--into", str(tmp_path / "no.json"))
    shown = await run(None, "show", str(tmp_path / "all.json"))
    assert done.exit_code == 0, done.output
    assert "several of the files have the calls" in str(twice.exception)
    assert not (tmp_path / "no.json").exists()
    whole = json.loads((tmp_path / "all.json").read_text())
    assert [(row["definition"], sum(row["counts"])) for row in whole["tools"]] == [("sha256:1", 1), ("sha256:2", 2)]
    rows = re.findall(r"(?m)^mcp-knots +2\.1 +knot +cluster +(\d+) .* ms +[A-Z]\w+ *$", shown.stdout)
    assert rows == ["1", "2"], "each with a badge for its speed, whatever that was"
