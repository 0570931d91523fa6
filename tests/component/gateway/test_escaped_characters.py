"""Servers' control characters, for clients whose policies make them visible (`controlCharacters: Escape`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from fairlead_api.documents.catalog import Catalog, DeclaredLatency, Definition
from fairlead_api.documents.rules import Policy, Rule, Rules, Subject
from fairlead_app.authentication import Trust
from fairlead_mcp import jsonrpc
from gatewayworld import LEGACY, MODERN, Ask, ask, calling, catalog, entry, legacy, modern, running
from policyworld import Vouching, anybody, by
from rawserver import Reply, Request, raw_server
from restworld import MESSAGES, get, post
from toolservers import answer_modern, tool

BAD = "red \x1b[31m, back \x9b, \u202eleft"
SHOWN = "red \\u001b[31m, back \\u009b, \\u202eleft"
NPC = anybody("npc")
QA = anybody("qa")
ALL = Rule(action="Allow", tools=("*",))
KEEP = Policy(namespace="default", name="keep", every=True, rules=(ALL,))
ESCAPE = Policy(
    namespace="default",
    name="visible",
    every=True,
    subjects=(Subject(kind="Agent", name="npc"),),
    rules=(ALL,),
    control_characters="Escape",
)
RULES = Rules(policies=(KEEP, ESCAPE))
TRUST = Trust((Vouching(NPC, QA),))
TOOL = tool("draw", description=BAD, title=BAD)


def handle(request: Request, reply: Reply) -> None:
    if request.method == "prompts/get":
        return reply.result(request, {"resultType": "complete", "messages": [], "description": BAD})
    if request.method == "resources/read":
        contents = [{"uri": "test://one", "text": BAD}]
        return reply.result(request, {"resultType": "complete", "contents": contents})
    if request.method == "tools/call" and "fail" in request.params.get("arguments", {}):
        return reply.error(request, 200, -32000, BAD)
    structured = {"deep": [{"text": BAD, BAD: 1}]}
    return answer_modern(
        request,
        reply,
        [TOOL],
        call=lambda _: {"content": [{"type": "text", "text": BAD}], "structuredContent": structured},
    )


async def serve(request: Request, reply: Reply) -> None:
    handle(request, reply)


def paint(url: str, **more: Any) -> Catalog:
    item = {"description": BAD}
    prompt = Definition(name="p", definition=Raw(jsonrpc.encode({"name": "p", **item})), hash="")
    resource = Definition(
        name="test://one", definition=Raw(jsonrpc.encode({"uri": "test://one", "name": "one", **item})), hash=""
    )
    return catalog(
        "paint",
        url,
        [entry(TOOL, **more)],
        prompts=(prompt,),
        resources=(resource,),
        instructions=BAD,
        capabilities=Raw(b'{"prompts":{},"resources":{}}'),
    )


def make_request(era: str, method: str, params: dict[str, Any]) -> Ask:
    if era == LEGACY:
        return legacy(method, params)
    return modern(method, params).with_headers(mcp_name=params.get("name") or params.get("uri"))


@pytest.mark.parametrize("target", ["/mcp", "/servers/default/paint/mcp"])
@pytest.mark.parametrize("era", [MODERN, LEGACY])
async def test_control_characters_are_shown_to_those_whose_policy_says_so(
    tmp_path: Path, era: str, target: str
) -> None:
    name = "paint__draw" if target == "/mcp" else "draw"
    prompt = "paint__p" if target == "/mcp" else "p"
    requests = {
        "definitions": make_request(era, "tools/list", {}),
        "prompts": make_request(era, "prompts/list", {}),
        "resources": make_request(era, "resources/list", {}),
        "a result": calling(name, {}, era=era),
        "a result with progress": calling(name, {}, era=era, **({"progressToken": "t"} if era == MODERN else {})),
        "an error": calling(name, {"fail": 1}, era=era),
        "a prompt": make_request(era, "prompts/get", {"name": prompt}),
        "a resource": make_request(era, "resources/read", {"uri": "test://one"}),
    }
    async with (
        raw_server(serve) as server,
        running(tmp_path, paint(server.url), RULES, trust=TRUST) as gateway,
    ):
        for what, request in requests.items():
            shown = (await ask(gateway, by("npc", request.to(target)))).body.decode()
            text = (await ask(gateway, by("qa", request.to(target)))).body.decode()
            assert SHOWN.replace("\\", "\\\\") in shown, what
            assert not any(char in shown for char in "\x9b\u202e"), what
            assert "\\u001b" not in shown.replace("\\\\", ""), what
            assert "\\\\u001b" not in text, what
            assert "\\u001b" in text, what


async def test_instructions_of_one_server_are_shown_too(tmp_path: Path) -> None:
    async with (
        raw_server(serve) as server,
        running(tmp_path, paint(server.url), RULES, trust=TRUST) as gateway,
    ):
        discovered = await ask(gateway, by("npc", modern("server/discover").to("/servers/default/paint/mcp")))
    assert discovered.message["result"]["instructions"] == SHOWN


async def test_a_kept_result_is_shown_to_each_as_their_policy_says(tmp_path: Path) -> None:
    async with (
        raw_server(serve) as server,
        running(
            tmp_path, paint(server.url, latency=DeclaredLatency(cacheable_seconds=60)), RULES, trust=TRUST
        ) as gateway,
    ):
        texts = []
        for who in ("npc", "qa", "npc"):
            result = (await ask(gateway, by(who, calling("paint__draw")))).message["result"]
            texts.append(result["content"][0]["text"])
            assert result["structuredContent"] == {"deep": [{"text": texts[-1], texts[-1]: 1}]}
        assert texts == [SHOWN, BAD, SHOWN]
        assert sum(request.method == "tools/call" for request in server.seen) == 1


async def test_models_of_every_format_read_definitions_and_results_with_them_shown(tmp_path: Path) -> None:
    npc = {"authorization": "Bearer npc"}
    async with (
        raw_server(serve) as server,
        running(tmp_path, paint(server.url), RULES, trust=TRUST) as gateway,
    ):
        for name, message in MESSAGES.items():
            offer = (await get(gateway, f"/v1/tools?format={name}", **npc)).body.decode()
            body = {"format": name, "message": message([("c", "paint__draw", {})])}
            answer = (await post(gateway, "/v1/tool-calls", body, **npc)).body.decode()
            for text in (offer, answer):
                assert "u001b[31m" in text
                assert not any(char in text for char in "\x9b\u202e")
                assert "\\u001b" not in text.replace("\\\\", "")


async def test_control_characters_are_escaped_where_one_of_several_policies_says_so(tmp_path: Path) -> None:
    rules = Rules(policies=(KEEP, Policy(**{**_members(ESCAPE), "subjects": ()})))
    async with raw_server(serve) as server, running(tmp_path, paint(server.url), rules, trust=TRUST) as gateway:
        assert (await ask(gateway, by("qa", calling("paint__draw")))).message["result"]["content"][0]["text"] == SHOWN


async def test_progress_is_shown_too(tmp_path: Path) -> None:
    async def send_progress(request: Request, reply: Reply) -> None:
        if request.method != "tools/call":
            return handle(request, reply)
        token = request.params["_meta"]["progressToken"]
        reply.open_stream()
        params = {"progressToken": token, "progress": 1, "message": BAD}
        reply.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        reply.event(
            {"jsonrpc": "2.0", "id": request.message["id"], "result": {"resultType": "complete", "content": []}}
        )
        return reply.end_stream()

    async with (
        raw_server(send_progress) as server,
        running(tmp_path, paint(server.url), RULES, trust=TRUST) as gateway,
    ):
        answer = await ask(gateway, by("npc", calling("paint__draw", progressToken="t")))
    assert [event["params"]["message"] for event in answer.events if "params" in event] == [SHOWN]


def _members(policy: Policy) -> dict[str, Any]:
    return {name: getattr(policy, name) for name in policy.__struct_fields__}
