"""Lists, conversions and plans of the REST API, at a real gateway."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from fairlead_api.documents.rules import Rules, Tier
from fairlead_app.configuration import Models
from fairlead_formats.registry import FORMATS
from fairlead_formats.schema.property_names import restore_names
from fairlead_formats.tokens.routes import read_routes
from fairlead_rest.application import assemble
from fairlead_rest.fast_routes import plain_endpoints
from fairlead_web.guard import PublicPages
from gatewayworld import Ask, Wire, ask, catalog, entry, modern, running
from oddproperties import ARGUMENTS, TOOL, under_other_names
from rawserver import Request
from restworld import MESSAGES, get, post, problem
from toolservers import modern_server
from waiting import eventually

ADD = {
    "name": "add",
    "description": "Add two numbers.",
    "inputSchema": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
}
NOWHERE = "http://127.0.0.1:9/mcp"
DEMO = catalog("demo", NOWHERE, [entry(ADD, tags=("math",)), "slow", "päth/tool name"])


async def test_canonical_entries_say_id_name_server_tags_and_whether_they_are_offline(tmp_path: Path) -> None:
    away = catalog("away", NOWHERE, ["gone"], online=False)
    async with running(tmp_path, DEMO, away) as gateway:
        tools = (await get(gateway, "/v1/tools")).message["tools"]
        listed = (await ask(gateway, modern("tools/list"))).message["result"]["tools"]
    assert [tool["definition"] for tool in tools] == listed
    assert [tool["name"] for tool in tools] == [tool["name"] for tool in listed]
    by_id = {tool["id"]: tool for tool in tools}
    assert by_id["mcp.demo.add"]["tags"] == ["math"]
    assert by_id["mcp.demo.add"]["server"] == "default/demo"
    assert {ident for ident, tool in by_id.items() if tool["offline"]} == {"mcp.away.gone"}


@pytest.mark.parametrize("name", FORMATS)
async def test_each_format_lists_the_tools_with_names_that_lead_back(tmp_path: Path, name: str) -> None:
    async with running(tmp_path, DEMO, catalog("away", NOWHERE, ["gone"], online=False)) as gateway:
        offer = (await get(gateway, f"/v1/tools?format={name.upper()}")).message
        offered = (await get(gateway, f"/v1/tools?format={name}&tags=math&servers=default/demo")).message
    assert offer["format"] == name
    assert set(offer["names"].values()) == {"demo__add", "demo__slow", "demo__päth/tool name"}
    assert offer["offline"] == ["away__gone"]
    *path, last = offer["member"].strip("/").split("/")
    request: Any = {last: offer["tools"]}
    for member in reversed(path):
        request = {member: request}
    read = FORMATS[name].read(request)
    assert {offer["names"][tool["name"]] for tool in read.tools} == set(offer["names"].values())
    assert list(offered["names"].values()) == ["demo__add"]


async def test_a_tool_that_is_for_its_app_alone_is_offered_to_no_model_and_found_by_none(tmp_path: Path) -> None:
    refresh = {**ADD, "name": "refresh", "_meta": {"ui": {"resourceUri": "ui://clock/app.html", "visibility": ["app"]}}}
    async with running(tmp_path, catalog("clock", NOWHERE, [ADD, refresh])) as gateway:
        offered = (await get(gateway, "/v1/tools?format=openai")).message["names"]
        canonical = (await get(gateway, "/v1/tools")).message["tools"]
        hits = (await get(gateway, "/v1/search?query=refresh+add+numbers")).message["tools"]
        for_hosts = (await ask(gateway, modern("tools/list"))).message["result"]["tools"]
    assert list(offered.values()) == ["clock__add"]
    assert [tool["name"] for tool in canonical] == ["clock__add"]
    assert [hit["tool"]["name"] for hit in hits] == ["clock__add"]
    assert [tool["name"] for tool in for_hosts] == ["clock__add", "clock__refresh"]


@pytest.mark.parametrize("alias", ["Claude", "ANTHROPIC_Messages", " anthropic "])
async def test_a_format_goes_by_its_aliases_in_any_case(tmp_path: Path, alias: str) -> None:
    async with running(tmp_path, DEMO) as gateway:
        answer = await get(gateway, f"/v1/tools?format={alias.replace(' ', '%20')}")
    assert answer.message["format"] == "anthropic"


async def test_strict_holds_where_nothing_is_lost_and_says_why_elsewhere(tmp_path: Path) -> None:
    free = {"name": "free", "inputSchema": {"type": "object", "additionalProperties": {"type": "string"}}}
    async with running(tmp_path, catalog("demo", NOWHERE, [ADD, free])) as gateway:
        offer = (await get(gateway, "/v1/tools?format=openai&strict=true")).message
    strict = {tool["function"]["name"]: tool["function"].get("strict") for tool in offer["tools"]}
    assert strict["demo__add"] is True
    assert strict["demo__free"] is not True
    assert [loss["tool"] for loss in offer["report"] if loss["action"] == "non-strict"] == ["demo__free"]


async def test_a_limit_cuts_by_name_and_names_what_it_cut(tmp_path: Path) -> None:
    async with running(tmp_path, DEMO) as gateway:
        offer = (await get(gateway, "/v1/tools?format=openai&model=gpt-5-mini&maxTools=1")).message
    assert list(offer["names"].values()) == ["demo__add"]
    assert {(cut["name"], cut["reason"]) for cut in offer["cut"]} == {
        ("demo__päth/tool name", "maxTools"),
        ("demo__slow", "maxTools"),
    }
    assert offer["numbers"]["contextWindow"] == 400_000
    assert offer["numbers"]["toolTokens"] > 0


@pytest.mark.parametrize("name", ["demo__add", "mcp.demo.add"])
async def test_v1_tools_has_one_tool_by_name_and_by_id(tmp_path: Path, name: str) -> None:
    async with running(tmp_path, DEMO) as gateway:
        assert (await get(gateway, f"/v1/tools/{name}")).message["definition"]["name"] == "demo__add"


async def test_an_id_that_two_servers_share_names_neither(tmp_path: Path) -> None:
    first, other = (catalog("same", NOWHERE, ["x"], namespace=space, prefix=space) for space in ("a", "b"))
    async with running(tmp_path, first, other) as gateway:
        assert problem(await get(gateway, "/v1/tools/mcp.same.x")) == (404, "UNKNOWN_TOOL")
        assert (await get(gateway, "/v1/tools/b__x")).message["server"] == "b/same"


async def test_an_unknown_tool_is_answered_with_the_visible_name_that_was_meant(tmp_path: Path) -> None:
    hidden = catalog("hidden", NOWHERE, [entry("stop", enabled=False)])
    async with running(tmp_path, DEMO, hidden) as gateway:
        near = await get(gateway, "/v1/tools/demo__ad")
        far = await get(gateway, "/v1/tools/hidden__stop")
    assert problem(near) == (404, "UNKNOWN_TOOL")
    assert near.message["didYouMean"] == "demo__add"
    assert "didYouMean" not in far.message


async def test_servers_are_listed_without_how_they_are_reached(tmp_path: Path) -> None:
    async with running(tmp_path, DEMO, catalog("away", NOWHERE, ["gone"], online=False)) as gateway:
        answer = await get(gateway, "/v1/servers")
    assert [(each["server"], each["offline"], each["tools"]) for each in answer.message["servers"]] == [
        ("default/away", True, 1),
        ("default/demo", False, 3),
    ]
    assert b"127.0.0.1" not in answer.body


async def test_every_pair_of_formats_converts_a_tool_and_keeps_its_meaning(tmp_path: Path) -> None:
    async with running(tmp_path, DEMO) as gateway:
        for source, read in FORMATS.items():
            given = read.request(read.convert([ADD]).tools)
            for target, to in FORMATS.items():
                body = {"from": source, "to": target.title(), "tools": given}
                answer = (await post(gateway, "/v1/convert", body)).message
                (tool,) = to.read(answer["tools"]).tools
                assert tool["inputSchema"]["required"] == ["a", "b"], (source, target)
                assert answer["names"] == {"add": "add"}


async def test_a_bad_definition_is_refused_in_the_report_and_the_others_go_over(tmp_path: Path) -> None:
    async with running(tmp_path, DEMO) as gateway:
        body = {"from": "mcp", "to": "openai", "tools": [ADD, 7, {"name": "x", "inputSchema": {"type": "string"}}]}
        answer = (await post(gateway, "/v1/convert", body)).message
    assert list(answer["names"]) == ["add"]
    assert {loss["tool"] for loss in answer["report"] if loss["action"] == "refused"} == {"#1", "x"}


async def test_a_plan_keeps_pinned_and_own_tools_and_explains_itself(tmp_path: Path) -> None:
    own = {"type": "function", "function": {"name": "mine", "parameters": {"type": "object", "properties": {}}}}
    body = {
        "models": ["unheard-of", {"model": "claude-sonnet-5", "format": "claude"}],
        "messages": [{"role": "user", "content": "word " * 40_000}],
        "system": "Be brief.",
        "pinned": ["mcp.demo.slow"],
        "maxTools": 2,
        "tools": [own],
        "toolsFormat": "openai",
    }
    async with running(tmp_path, DEMO) as gateway:
        answer = (await post(gateway, "/v1/plan", body)).message
    assert answer["model"] == "claude-sonnet-5"
    assert answer["offer"]["format"] == "anthropic"
    assert set(answer["offer"]["names"].values()) == {"demo__slow", "mine"}
    assert [skipped["model"] for skipped in answer["skipped"]] == ["unheard-of"]
    assert {cut["reason"] for cut in answer["cut"]} == {"maxTools"}
    numbers = answer["numbers"]
    assert numbers["available"] == min(numbers["contextWindow"], numbers.get("maxInput", 10**9)) - sum(
        numbers[part] for part in ("toolTokens", "systemPromptTokens", "messageTokens", "reservedOutputTokens")
    )


async def test_a_route_names_the_models_and_bounds_the_tools_of_a_plan(tmp_path: Path) -> None:
    routes = read_routes({"default": {"models": ["claude-sonnet-5"], "maxTools": 1}})
    async with running(tmp_path, DEMO, models=Models(routes)) as gateway:
        answer = (await post(gateway, "/v1/plan", {"route": "default"})).message
    assert answer["model"] == "claude-sonnet-5"
    assert len(answer["offer"]["names"]) == 1


async def test_a_plan_that_cannot_be_is_refused_with_what_would_fit(tmp_path: Path) -> None:
    body = {"models": ["unheard-of"], "messages": [{"role": "user", "content": "word " * 40_000}]}
    async with running(tmp_path, DEMO) as gateway:
        answer = await post(gateway, "/v1/plan", body)
    assert problem(answer) == (422, "OVER_BUDGET")
    assert answer.message["wouldFit"]
    assert answer.message["numbers"]["messageTokens"] > 40_000


DEEP = b'{"format":"mcp","message":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize(
    ("target", "body", "expected"),
    [
        ("/v1/tools?format=cobol", None, (400, "UNKNOWN_FORMAT")),
        ("/v1/tools?maxTools=0&format=mcp", None, (400, "INVALID_ARGUMENTS")),
        ("/v1/tools?maxTools=1", None, (400, "INVALID_ARGUMENTS")),
        ("/v1/tools?format=openai&toolTokens=1", None, (422, "OVER_BUDGET")),
        ("/v1/tools?tier=warp", None, (404, "UNKNOWN_TIER")),
        ("/v1/tools?servers=nobody", None, (404, "UNKNOWN_SERVER")),
        ("/v1/nothing", None, (404, "NOT_FOUND")),
        ("/v1/convert", None, (405, "METHOD_NOT_ALLOWED")),
        ("/v1/convert", b"{", (400, "INVALID_ARGUMENTS")),
        ("/v1/convert", b"[]", (400, "INVALID_ARGUMENTS")),
        ("/v1/convert", b'{"from":"mcp","to":"x","tools":[]}', (400, "UNKNOWN_FORMAT")),
        ("/v1/convert", b'{"from":"mcp","to":"mcp","tools":[],"typo":1}', (400, "INVALID_ARGUMENTS")),
        ("/v1/convert", b'{"tools":"' + b"x" * 70_000 + b'"}', (413, "BODY_TOO_LARGE")),
        ("/v1/tool-calls", b'{"format":"x","message":{}}', (400, "UNKNOWN_FORMAT")),
        ("/v1/tool-calls", b'{"format":"mcp","message":{},"limit":0}', (400, "INVALID_ARGUMENTS")),
        ("/v1/tool-calls", DEEP[:60_000], (400, "INVALID_ARGUMENTS")),
        ("/v1/plan", b"{", (400, "INVALID_ARGUMENTS")),
        ("/v1/plan", b'{"models":["x"],"messages":"\\ud800"}', (400, "INVALID_ARGUMENTS")),
        ("/v1/plan", b"{}", (400, "INVALID_ARGUMENTS")),
        ("/v1/plan", b'{"route":"none"}', (404, "UNKNOWN_ROUTE")),
        ("/v1/plan", b'{"models":[{"model":"x","format":"y"}]}', (400, "UNKNOWN_FORMAT")),
        ("/v1/plan", b'{"models":["x"],"pinned":["nope"]}', (404, "UNKNOWN_TOOL")),
    ],
)
async def test_requests_that_cannot_be_answered_get_a_problem_document_with_its_code(
    tmp_path: Path, target: str, body: bytes | None, expected: tuple[int, str]
) -> None:
    async with running(tmp_path, DEMO, max_request_bytes=65_536) as gateway:
        answer = await (get(gateway, target) if body is None else post(gateway, target, body))
    assert problem(answer) == expected


async def test_unknown_formats_and_tiers_name_the_known_ones(tmp_path: Path) -> None:
    async with running(tmp_path, DEMO, Rules(tiers=(Tier(name="fast"),))) as gateway:
        assert (await get(gateway, "/v1/tools?format=x")).message["known"] == list(FORMATS)
        assert (await get(gateway, "/v1/tools?tier=warp")).message["known"] == ["fast"]
        assert (await get(gateway, "/v1/tools?tier=fast")).status == 200
        unknown = (await post(gateway, "/v1/plan", b'{"route":"none"}')).message
        assert "no routes; declare them in the file of --routes" in unknown["detail"]


async def test_a_web_page_from_elsewhere_reaches_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, DEMO) as gateway:
        rebound = await ask(gateway, Ask(verb="GET", target="/v1/tools", body=b"", headers={"host": "evil.example"}))
        foreign = await post(gateway, "/v1/tool-calls", {}, origin="https://evil.example")
        simple = await post(gateway, "/v1/tool-calls", {}, content_type="text/plain")
        probe = await ask(gateway, Ask(verb="GET", target="/healthz", body=b"", headers={"host": "10.1.2.3"}))
    assert problem(rebound) == (421, "FORBIDDEN_HOST")
    assert problem(foreign) == (403, "FORBIDDEN_ORIGIN")
    assert problem(simple) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert probe.status == 200


async def test_the_openapi_document_describes_what_is_answered(tmp_path: Path) -> None:
    async with running(tmp_path, DEMO) as gateway:
        document = (await get(gateway, "/openapi.json")).message
        answers = {
            ("/v1/tools", "get"): await get(gateway, "/v1/tools?format=openai&maxTools=1"),
            ("/v1/tools/{name}", "get"): await get(gateway, "/v1/tools/demo__add"),
            ("/v1/servers", "get"): await get(gateway, "/v1/servers"),
        }
        for path in ("/v1/convert", "/v1/tool-calls", "/v1/plan"):
            content = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
            for example in content["examples"].values():
                schema = {**content["schema"], "components": document["components"]}
                assert jsonschema_rs.is_valid(schema, example["value"])
                body = json.loads(json.dumps(example["value"]).replace("get_stock", "add"))
                answers[path, "post"] = await post(gateway, path, body)
    assert document["openapi"].startswith("3.1")
    assert all("x-schemas" not in operation for path in document["paths"].values() for operation in path.values())
    for (path, verb), answer in answers.items():
        content = document["paths"][path][verb]["responses"]["200"]["content"]["application/json"]
        schema = {**content["schema"], "components": document["components"]}
        assert answer.status == 200, (path, answer.body)
        for shown in [answer.message, *(example["value"] for example in content["examples"].values())]:
            jsonschema_rs.validate(schema, shown)
    assert set(MESSAGES) == set(FORMATS)


async def test_a_large_list_is_written_at_the_pace_of_its_reader(tmp_path: Path) -> None:
    schema = {"type": "object"}
    tools = [{"name": f"t{n}", "description": "d" * 10_000, "inputSchema": schema} for n in range(2000)]
    many = catalog("many", NOWHERE, tools)
    async with running(tmp_path, many) as gateway, await Wire.connect(gateway) as wire:
        wire.transport.pause_reading()
        wire.send(Ask(verb="GET", target="/v1/tools", body=b""))
        await eventually(lambda: any(each.write_paused for each in gateway._listener.connections))
        (connection,) = gateway._listener.connections
        assert connection.transport.get_write_buffer_size() < 1_000_000
        wire.transport.resume_reading()
        assert len((await wire.answer()).message["tools"]) == 2000


async def test_endpoints_that_take_a_request_alone_bypass_fastapi(tmp_path: Path) -> None:
    async with running(tmp_path, DEMO) as gateway:
        direct = dict(
            plain_endpoints(assemble(PublicPages(gateway.readiness, gateway.rest.guard.resource), gateway.rest).routes)
        )
        assert {("POST", "/v1/convert"), ("POST", "/v1/plan"), ("POST", "/v1/tool-calls")} <= direct.keys()
        assert direct.keys().isdisjoint({("GET", "/v1/tools"), ("GET", "/v1/tools/{name:path}")})
        assert problem(await get(gateway, "/v1/convert")) == (405, "METHOD_NOT_ALLOWED")
        assert (await post(gateway, "/v1/convert/", {})).status == 307


async def test_a_fault_of_a_resource_is_told_as_one_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, DEMO) as gateway:
        gateway.rest.services.work.worker.close()  # any later request to it is a fault
        assert problem(await post(gateway, "/v1/convert", {"from": "mcp", "to": "gemini", "tools": []})) == (
            500,
            "INTERNAL",
        )
    assert "POST /v1/convert failed" in caplog.text


async def test_names_of_properties_that_a_provider_refuses_are_changed_reported_and_mapped_back(tmp_path: Path) -> None:
    called: list[Any] = []

    def call(request: Request) -> dict[str, Any]:
        called.append(request.params["arguments"])
        return {"content": [{"type": "text", "text": "found"}]}

    async with (
        modern_server(call=call) as server,
        running(tmp_path, catalog("demo", server.url, [entry(TOOL)])) as gateway,
    ):
        offer = (await get(gateway, "/v1/tools?format=anthropic")).message
        used = {"type": "tool_use", "id": "1", "name": "demo__odd", "input": under_other_names(ARGUMENTS)}
        body = {"format": "anthropic", "message": {"role": "assistant", "content": [used]}}
        ran = (await post(gateway, "/v1/tool-calls", body)).message["calls"][0]
        converted = (await post(gateway, "/v1/convert", {"from": "mcp", "to": "anthropic", "tools": [TOOL]})).message
    assert ran["state"] == "done"
    assert called == [ARGUMENTS]
    others = offer["properties"]["demo__odd"]
    assert restore_names(under_other_names(ARGUMENTS), others) == ARGUMENTS
    assert offer["tools"][0]["input_schema"]["properties"].keys() == {*others, "plain"}
    for answer, name in ((offer, "demo__odd"), (converted, "odd")):
        told = [(loss["tool"], loss["action"]) for loss in answer["report"] if " was renamed to " in loss["why"]]
        assert told == [(name, "rewritten")] * 3
    assert converted["properties"] == {"odd": others}
