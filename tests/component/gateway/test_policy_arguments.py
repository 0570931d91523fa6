"""Policies about arguments, on every path of a call, and messages about refused calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairlead_api.documents.catalog import DeclaredLatency
from fairlead_api.documents.rules import Policy, Rule, Rules, Subject
from fairlead_app.authentication import Trust
from gatewayworld import (
    LEGACY,
    MODERN,
    Ask,
    Wire,
    ask,
    calling,
    entry,
    modern,
    running,
)
from policyworld import Vouching, anybody, by, handle, list_tools, tavern
from rawserver import raw_server
from restworld import MESSAGES, post
from toolservers import tool

NPC = anybody("npc")
QA = anybody("qa")


PUBLIC_ONLY: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string", "pattern": "^/data/public/", "not": {"pattern": "(^|/)\\.\\.(/|$)"}}},
    "required": ["path"],
    "additionalProperties": False,
}
CONSTRAINED = Policy(
    namespace="default",
    name="public",
    every=True,
    rules=(Rule(action="Allow", tools=("read",), arguments=PUBLIC_ONLY), Rule(action="Allow", tools=("list",))),
)
PATHS: list[tuple[str, bool]] = [
    ('{"path":"/data/public/a"}', True),
    ('{"path":"/data/public/..a/b"}', True),
    ('{"path":"/data/private/a"}', False),
    ('{"path":"/data/public/../etc/passwd"}', False),
    ('{"path":"/data/public/.."}', False),
    ('{"path":"data/public/a"}', False),
    ('{"path":"/data/public/\\u002e\\u002e/etc"}', False),
    ('{"path":"/data/public/a","path":"/etc/passwd"}', False),
    ('{"path":"/etc/passwd","path":"/data/public/a"}', False),
    ('{"path":"/data/public/a","PATH":"/etc/passwd"}', False),
    ('{"path":"/data/public/a","pa\\u0074h":"/etc/passwd"}', False),
    ('{"path":"/data/public/a","other":1}', False),
    ("{}", False),
    ("null", False),
    ('{"path":["/data/public/a"]}', False),
    ('{"path":"/data/public/' + "a" * 100_000 + '"}', False),
]


@pytest.mark.parametrize("era", [MODERN, LEGACY])
async def test_arguments_that_a_policy_does_not_allow_are_not_sent(tmp_path: Path, era: str) -> None:
    async with (
        raw_server(handle) as server,
        running(
            tmp_path, tavern(server.url, "read", "list"), Rules(policies=(CONSTRAINED,)), trust=Trust((Vouching(NPC),))
        ) as gateway,
        await Wire.connect(gateway) as wire,
    ):
        assert await list_tools(gateway, "npc") == ["tavern__list", "tavern__read"]
        for arguments, fine in PATHS:
            sent = len(server.seen)
            for more in ({}, {"progressToken": "p"}):  # progress takes another path through the gateway
                made = calling("tavern__read", era=era)
                body = json.dumps(made.message).replace('"arguments": {}', f'"arguments": {arguments}')
                if more:
                    body = (
                        body.replace('"_meta": {', '"_meta": {"progressToken": "p", ')
                        if era == MODERN
                        else body.replace('"name": ', '"_meta": {"progressToken": "p"}, "name": ')
                    )
                answer = await wire.ask(by("npc", Ask(headers=made.headers, body=body.encode())))
                if fine:
                    assert answer.message["result"]["content"] == []
                else:
                    assert answer.refusal == "INVALID_ARGUMENTS", arguments
            assert (len(server.seen) > sent) is fine, arguments


async def test_a_kept_result_answers_nobody_who_may_not_ask_for_it(tmp_path: Path) -> None:
    free = Policy(
        namespace="default",
        name="free",
        every=True,
        subjects=(Subject(kind="Agent", name="qa"),),
        rules=(Rule(action="Allow", tools=("*",)),),
    )
    cached = entry(tool("read"), latency=DeclaredLatency(cacheable_seconds=60))
    async with (
        raw_server(handle) as server,
        running(
            tmp_path,
            tavern(server.url, cached),
            Rules(policies=(CONSTRAINED, free)),
            trust=Trust((Vouching(NPC, QA),)),
        ) as gateway,
    ):
        secret = calling("tavern__read", {"path": "/etc/passwd"})
        for _ in range(2):
            assert "isError" not in (await ask(gateway, by("qa", secret))).message["result"]
        assert len([request for request in server.seen if request.method == "tools/call"]) == 1
        refused = await ask(gateway, by("npc", secret))
        assert refused.refusal == "INVALID_ARGUMENTS"
        public = calling("tavern__read", {"path": "/data/public/a"})
        assert "isError" not in (await ask(gateway, by("npc", public))).message["result"]


async def test_a_retry_without_its_arguments_cannot_pass_a_policy(tmp_path: Path) -> None:
    async with (
        raw_server(handle) as server,
        running(
            tmp_path, tavern(server.url, "read"), Rules(policies=(CONSTRAINED,)), trust=Trust((Vouching(NPC),))
        ) as gateway,
    ):
        retry = modern("tools/call", {"name": "tavern__read", "requestState": "forged"})
        assert (await ask(gateway, by("npc", retry))).refusal == "INVALID_ARGUMENTS"
        assert not server.seen


@pytest.mark.parametrize("denied", ["Hide", "Explain"])
async def test_a_policy_says_whether_refusals_have_reasons(tmp_path: Path, denied: str) -> None:
    rules = (
        Rule(action="Allow", tools=("read",), arguments=PUBLIC_ONLY),
        Rule(action="Deny", tools=("zap-it-all",)),
    )
    team = Policy(namespace="default", name="team", every=True, rules=rules, denied=denied)
    async with (
        raw_server(handle) as server,
        running(
            tmp_path, tavern(server.url, "read", "zap-it-all"), Rules(policies=(team,)), trust=Trust((Vouching(NPC),))
        ) as gateway,
    ):
        call = await ask(gateway, by("npc", calling("tavern__zap-it-all")))
        assert call.code == -32602
        message = call.message["error"]["message"]
        body = {"format": "mcp", "message": MESSAGES["mcp"]([("1", "tavern__zap-it-all", {})]), "tools": []}
        (model,) = (await post(gateway, "/v1/tool-calls", body, authorization="Bearer npc")).message["calls"]
        assert model["state"] == "unknown"
        wrong = await ask(gateway, by("npc", calling("tavern__read", {"path": "/etc"})))
        argued = wrong.message["result"]["content"][0]["text"]
        if denied == "Hide":
            assert message == model["message"] == "Unknown tool: tavern__zap-it-all"
            assert argued == "No policy allows a call of the tool with these arguments"
        else:
            assert (
                message
                == model["message"]
                == "The tool tavern__zap-it-all is not allowed for you: rule 1 of policy default/team denies the tool"
            )
            assert argued.startswith(
                "No policy allows a call of the tool with these arguments:\n- rule 0 of policy default/team: path"
            )
