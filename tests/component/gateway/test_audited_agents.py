"""Agents identified by their credentials: their names in the audit log, and limits that count their calls."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from commands import fairlead
from fairlead_api.documents.rules import Policy, Rule, Rules, Subject
from fairlead_app.authentication import Trust, build_trust
from fairlead_app.gateway import Gateway
from fairlead_app.settings import Settings
from gatewayworld import Ask, ask, calling, catalog, running
from policyworld import Vouching, anybody, by
from restworld import get
from toolservers import modern_server, tool
from waiting import until_async


async def key_of(agent: str, file: Path) -> str:
    code, key, _ = await fairlead("keys", "create", agent, "--file", str(file))
    assert code == 0
    return key.strip()


@contextlib.asynccontextmanager
async def with_keys(tmp_path: Path, keys: Path, **settings: Any) -> AsyncIterator[Gateway]:
    async with modern_server([tool("add")]) as server:
        demo = catalog("demo", server.url, ["add"])
        async with running(tmp_path, demo, trust=build_trust(Settings.of(api_keys=keys)), **settings) as gateway:
            yield gateway


async def outcome(gateway: Gateway, key: str) -> str:
    """Outcome of a call: a code, a status, or ok. Waits for the gateway to read its keys."""

    async def call_outcome() -> str:
        answer = await ask(gateway, calling("demo__add").with_headers(authorization=f"Bearer {key}"))
        if answer.status != 200:
            return ""
        return answer.refusal if answer.message["result"]["isError"] else "ok"

    return await until_async("an answer", call_outcome, seconds=30)


async def test_the_log_names_who_has_a_key_and_tells_of_who_was_turned_away(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    log = tmp_path / "audit.log"
    key = await key_of("npc", keys)
    async with with_keys(tmp_path, keys, audit="all", audit_file=log) as gateway:
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
    npc = await key_of("npc", keys)
    qa = await key_of("qa", keys)
    async with with_keys(tmp_path, keys, agent_calls_per_minute=2) as gateway:
        assert [await outcome(gateway, npc) for _ in range(3)] == ["ok", "ok", "RATE_LIMITED"]
        assert [await outcome(gateway, qa) for _ in range(3)] == ["ok", "ok", "RATE_LIMITED"]


NO_WEB = Policy(
    namespace="default",
    name="no-web",
    every=True,
    subjects=(Subject(kind="Agent", name="npc"),),
    rules=(
        Rule(action="Deny", tools=("web-search",)),
        Rule(action="Allow", tools=("read",), arguments={"properties": {"path": {"pattern": "^/data/public/"}}}),
        Rule(action="Allow", tools=("roll",)),
    ),
)


@pytest.mark.parametrize("target", ["/mcp", "/servers/default/demo/mcp"])
async def test_a_call_that_a_policy_denies_is_in_the_log_with_the_rule_although_nobody_is_told(
    tmp_path: Path, target: str
) -> None:
    log = tmp_path / "audit.log"
    prefix = "demo__" if target == "/mcp" else ""

    def request_for(name: str, **more: Any) -> Ask:
        return by("npc", calling(prefix + name, {"path": "/etc/passwd"}, **more)).to(target)

    async with modern_server([tool("read"), tool("roll"), tool("web-search")]) as server:
        demo = catalog("demo", server.url, ["read", "roll", "web-search"])
        trust = Trust((Vouching(anybody("npc")),))
        async with running(tmp_path, demo, Rules(policies=(NO_WEB,)), trust=trust, audit_file=log) as gateway:
            unknown = await ask(gateway, request_for("web-search"))
            assert "no-web" not in unknown.body.decode()
            assert (await ask(gateway, request_for("read"))).refusal == "INVALID_ARGUMENTS"
            assert (await ask(gateway, request_for("read", progressToken="p"))).refusal == "INVALID_ARGUMENTS"
            assert not (await ask(gateway, request_for("roll"))).message["result"]["isError"]
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["decision"], line["tool"], line["server"], line["agent"]) for line in lines] == [
        ("denied", f"mcp.demo.{name}", "default/demo", "npc") for name in ("web-search", "read", "read")
    ]
    assert lines[0]["reason"] == "rule 0 of policy default/no-web denies the tool"
    assert all("default/no-web" in line["reason"] for line in lines)
    assert "/etc/passwd" not in log.read_text()


def chat(*names: str, arguments: str = '{"path": "/etc/passwd"}') -> dict[str, Any]:
    """A model's message with calls."""
    calls = [
        {"id": str(number), "type": "function", "function": {"name": name, "arguments": arguments}}
        for number, name in enumerate(names)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


@pytest.mark.parametrize("own", [None, [], "stream"])
async def test_a_denied_call_over_rest_leaves_the_line_that_it_leaves_on_mcp(tmp_path: Path, own: Any) -> None:
    """Such a call is left to the caller, who may have a tool of that name, but it counts as an attempt."""
    log = tmp_path / "audit.log"
    body: dict[str, Any] = {"format": "openai-chat", "message": chat("demo__web-search", "demo__read")}
    if own == "stream":
        delta = {"index": 0, **chat("demo__web-search")["tool_calls"][0]}
        body = {"format": "openai-chat", "stream": [{"choices": [{"index": 0, "delta": {"tool_calls": [delta]}}]}]}
    elif own is not None:
        body["tools"] = own
    async with modern_server([tool("read"), tool("web-search")]) as server:
        demo = catalog("demo", server.url, ["read", "web-search"])
        trust = Trust((Vouching(anybody("npc")),))
        async with running(tmp_path, demo, Rules(policies=(NO_WEB,)), trust=trust, audit_file=log) as gateway:
            request = Ask(body, {"content-type": "application/json"}, target="/v1/tool-calls")
            answer = await ask(gateway, by("npc", request))
            assert (answer.status, "no-web" in answer.body.decode()) == (200, False)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    tried = ["web-search"] if own == "stream" else ["web-search", "read"]
    assert [(line["decision"], line["tool"], line["server"], line["agent"]) for line in lines] == [
        ("denied", f"mcp.demo.{name}", "default/demo", "npc") for name in tried
    ]
    assert lines[0]["reason"] == "rule 0 of policy default/no-web denies the tool"
    assert lines[0]["outcome"] == "-32602"


async def test_an_unknown_call_over_rest_leaves_a_line_and_one_that_cannot_be_read_as_well(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    async with modern_server([tool("read")]) as server:
        demo = catalog("demo", server.url, ["read"])
        async with running(tmp_path, demo, audit="all", audit_file=log) as gateway:
            for message in (chat("nonesuch"), chat("demo__read", arguments="{")):
                body = {"format": "openai-chat", "message": message, "tools": []}
                assert (
                    await ask(gateway, Ask(body, {"content-type": "application/json"}, target="/v1/tool-calls"))
                ).status == 200
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["decision"], line["tool"], line["outcome"]) for line in lines] == [
        ("denied", "nonesuch", "-32602"),
        ("refused", "mcp.demo.read", "INVALID_ARGUMENTS"),
    ]
