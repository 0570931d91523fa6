"""Agents that are known by their credentials: what the audit log says of them, and whose calls a limit counts."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from commands import fairlead
from fairlead_gateway.app import Gateway
from fairlead_gateway.identity.setup import trusted
from fairlead_gateway.settings import Settings
from gatewayworld import ask, calling, catalog, running
from restworld import get
from toolservers import modern_server, tool


async def key_of(agent: str, file: Path) -> str:
    code, key, _ = await fairlead("keys", "create", agent, "--file", str(file))
    assert code == 0
    return key.strip()


@contextlib.asynccontextmanager
async def known(tmp_path: Path, keys: Path, **settings: Any) -> AsyncIterator[Gateway]:
    async with modern_server([tool("add")]) as server:
        demo = catalog("demo", server.url, ["add"])
        async with running(tmp_path, demo, trust=trusted(Settings(api_keys=keys)), **settings) as gateway:
            yield gateway


async def outcome(gateway: Gateway, key: str) -> str:
    """What a call comes to: a code, a status, or ok. Keys are read a moment after the start."""
    async with asyncio.timeout(30):
        while True:
            answer = await ask(gateway, calling("demo__add").with_headers(authorization=f"Bearer {key}"))
            if answer.status == 200:
                return answer.refusal if answer.message["result"]["isError"] else "ok"
            await asyncio.sleep(0.05)


async def test_the_log_names_who_has_a_key_and_tells_of_who_was_turned_away(tmp_path: Path) -> None:
    keys, log = tmp_path / "keys.json", tmp_path / "audit.log"
    key = await key_of("npc", keys)
    async with known(tmp_path, keys, audit="all", audit_file=log) as gateway:
        assert await outcome(gateway, key) == "ok"
        assert (
            await ask(gateway, calling("demo__add").with_headers(authorization="Bearer flk_nonsense"))
        ).status == 401
        assert (await ask(gateway, calling("demo__add"))).status == 401
        assert (await get(gateway, "/v1/tools")).status == 401
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    (allowed,) = (line for line in lines if line["decision"] == "allowed")
    assert (allowed["agent"], allowed["kind"]) == ("npc", "apiKey")
    assert allowed["principal"] != "anonymous"
    away = lines[-3:]
    assert {(line["event"], line["decision"], line["status"], line["client"]) for line in away} == {
        ("request", "denied", 401, "127.0.0.1")
    }
    assert all(line["reason"] for line in away)
    assert key not in log.read_text()
    assert "nonsense" not in log.read_text()


async def test_an_agent_is_limited_whatever_connection_it_uses_and_others_are_not(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    npc, qa = await key_of("npc", keys), await key_of("qa", keys)
    async with known(tmp_path, keys, agent_calls_per_minute=2) as gateway:
        assert [await outcome(gateway, npc) for _ in range(3)] == ["ok", "ok", "RATE_LIMITED"]
        assert [await outcome(gateway, qa) for _ in range(3)] == ["ok", "ok", "RATE_LIMITED"]
