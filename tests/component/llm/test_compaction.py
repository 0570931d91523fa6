"""`/v1/responses/compact` and `/v1/responses/input_tokens`, with conversations to which the gateway has added tools and
results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import openai
import pytest

from fairlead_formats.providers.openai_responses.fake import COUNT_MEMBERS, ResponsesApi
from fairlead_formats.providers.openai_responses.fake_compaction import MEMBERS
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from gatewayworld import Answer, Ask, ask
from llmworld import ANTHROPIC, LlmWorld, llm_world
from metricseries import label_set, metric_values
from responsesworld import PATH, respond, responses_world, result, theirs
from restworld import get, post

COMPACT = f"{PATH}/compact"
INPUT_TOKENS = f"{PATH}/input_tokens"
ADD = ScriptedCall("demo__add", {"a": 2, "b": 40})
CLIENT_CALL = ScriptedCall("theirs", {"q": 1})
USER = {"type": "message", "role": "user", "content": "Hi"}


async def _ask(world: LlmWorld, path: str, given: Any = "Hi", **members: Any) -> Answer:
    headers = members.pop("headers", {})
    return await post(world.gateway, path, {"model": "scripted", "input": given, **members}, **headers)


def _client(world: LlmWorld) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{world.gateway.port}/v1", api_key="none", max_retries=0)


async def test_input_tokens_are_counted_by_the_provider_with_the_injected_tools(tmp_path: Path) -> None:
    async with responses_world(tmp_path) as world, _client(world) as client:
        counted = await client.responses.input_tokens.count(model="scripted", input="Hi", tools=[theirs()])  # type: ignore[list-item] # a tool
        without = await _ask(world, INPUT_TOKENS, fairlead={"tools": "none"}, tools=[theirs()])
    request = world.model.requests[0]
    assert [tool["name"] for tool in request["tools"]] == ["theirs", "demo__add", "demo__fail"]
    expected = ResponsesApi().count_tokens(INPUT_TOKENS, request)
    assert expected is not None
    assert counted.object == "response.input_tokens"
    assert counted.input_tokens == json.loads(expected)["input_tokens"] > without.message["input_tokens"]


async def test_input_tokens_of_a_continued_response_are_counted_by_its_provider(tmp_path: Path) -> None:
    async with responses_world(tmp_path, ScriptedTurn("", [ADD]), ScriptedTurn("42.")) as world:
        first = (await respond(world, "Add")).message
        counted = await _ask(world, INPUT_TOKENS, "And now?", previous_response_id=first["id"])
        unknown = await _ask(world, INPUT_TOKENS, "And now?", previous_response_id="resp_of_somebody")
    assert counted.status == 200
    assert world.model.requests[-1]["previous_response_id"] == "resp_scripted_0002"
    assert (unknown.status, unknown.message["error"]["code"]) == (400, "previous_response_not_found")


@pytest.mark.parametrize("provider", [{"responses": False}, ANTHROPIC, {"kind": "gemini"}])
async def test_input_tokens_are_estimated_for_providers_of_other_kinds(
    tmp_path: Path, provider: dict[str, Any]
) -> None:
    async with llm_world(tmp_path, ScriptedTurn("Hello."), provider=provider) as world:
        short = await _ask(world, INPUT_TOKENS)
        long = await _ask(world, INPUT_TOKENS, "Hi " * 1000)
        without = await _ask(world, INPUT_TOKENS, fairlead={"tools": "none"})
        requests_total = len(world.model.requests)
        first = (await respond(world, "Hi " * 1000)).message
        continued = await _ask(world, INPUT_TOKENS, previous_response_id=first["id"])
    assert not requests_total
    assert short.headers["x-fairlead-estimated"] == "true"
    assert short.message["object"] == "response.input_tokens"
    assert without.message["input_tokens"] < short.message["input_tokens"] < long.message["input_tokens"]
    assert continued.message["input_tokens"] > short.message["input_tokens"] + 900


async def test_a_conversation_is_compacted_as_the_sdk_reads_it_and_goes_on(tmp_path: Path) -> None:
    rounds = [ScriptedTurn(), ScriptedTurn("Hello again.")]
    async with responses_world(tmp_path, *rounds) as world, _client(world) as client:
        compacted = await client.responses.compact(model="scripted", input="Hi", instructions="Be brief.")
        output = [item.to_dict(warnings=False) for item in compacted.output]
        response = await client.responses.create(model="scripted", input=[*output, USER])  # type: ignore[list-item] # items
    assert (compacted.object, [item["type"] for item in output]) == ("response.compaction", ["message", "compaction"])
    assert compacted.id.startswith("resp_")
    assert "scripted" not in compacted.id, "the provider's id works for all users of its key"
    assert compacted.usage.input_tokens == 100
    assert compacted.model_extra is not None
    assert compacted.model_extra["fairlead"]["model"] == "script0/scripted"
    assert response.output_text == "Hello again."
    assert set(world.model.requests[0]) <= MEMBERS, "no tools, which compaction does not have"
    assert world.model.requests[1]["input"] == [*output, USER]


async def test_compaction_gets_the_calls_that_the_client_did_not_receive(tmp_path: Path) -> None:
    mixed = ScriptedTurn("Both.", [ADD, CLIENT_CALL])
    async with responses_world(tmp_path, mixed, ScriptedTurn()) as world:
        first = (await respond(world, [USER], tools=[theirs()], store=False)).message["output"]
        (call,) = [item for item in first if item["type"] == "function_call"]
        compacted = await _ask(world, COMPACT, [USER, *first, result(call["call_id"], "mine")])
    assert compacted.status == 200
    sent = world.model.requests[-1]["input"]
    assert [item["name"] for item in sent if item["type"] == "function_call"] == ["demo__add", "theirs"]
    assert sorted(item["output"] for item in sent if item["type"] == "function_call_output") == ["42", "mine"]
    assert len(world.called) == 1


async def test_compaction_of_a_continued_response_goes_to_its_provider(tmp_path: Path) -> None:
    async with responses_world(tmp_path, ScriptedTurn("Hello."), ScriptedTurn()) as world:
        first = (await respond(world, "Hi")).message
        compacted = (await _ask(world, COMPACT, None, previous_response_id=first["id"])).message
        stored = await get(world.gateway, f"{PATH}/{compacted['id']}")
    assert world.model.requests[-1]["previous_response_id"] == "resp_scripted_0001"
    assert [item["type"] for item in compacted["output"]] == ["message", "compaction"]
    assert stored.status == 404, "the API stores no compacted conversation"


async def test_a_mixed_turn_right_after_a_compacted_conversation_keeps_it(tmp_path: Path) -> None:
    rounds = [ScriptedTurn(), ScriptedTurn("Both.", [ADD, CLIENT_CALL]), ScriptedTurn("Done.")]
    async with responses_world(tmp_path, *rounds) as world:
        compacted = (await _ask(world, COMPACT)).message["output"]
        first = (await respond(world, compacted, tools=[theirs()], store=False)).message["output"]
        (call,) = [item for item in first if item["type"] == "function_call"]
        items = [*compacted, *first, result(call["call_id"], "mine")]
        last = await respond(world, items, tools=[theirs()], store=False)
    assert last.status == 200
    kinds = [item["type"] for item in world.model.requests[-1]["input"]]
    assert kinds.count("compaction") == 1
    assert kinds.index("compaction") < kinds.index("function_call")
    assert len(world.called) == 1


@pytest.mark.parametrize(
    ("provider", "name"), [({"responses": False}, "script0"), (ANTHROPIC, "script0"), ({"kind": "gemini"}, "script0")]
)
async def test_compaction_by_a_provider_of_another_kind_is_refused_with_what_to_do(
    tmp_path: Path, provider: dict[str, Any], name: str
) -> None:
    async with llm_world(tmp_path, provider=provider) as world, _client(world) as client:
        with pytest.raises(openai.BadRequestError) as refused:
            await client.responses.compact(model="scripted", input="Hi")
    assert refused.value.param == "model"
    assert f"{name}/scripted cannot compact a conversation" in str(refused.value)
    assert "name a model of such a provider (`responses: true`" in str(refused.value)
    assert not world.model.requests


async def test_compaction_by_a_route_uses_the_next_model_that_supports_it(tmp_path: Path) -> None:
    providers: list[dict[str, Any]] = [ANTHROPIC, {"responses": True}, {"responses": True}]
    down = ScriptedTurn("down", status=503)
    async with llm_world(tmp_path, [ScriptedTurn()], [down], [ScriptedTurn()], providers=providers) as world:
        compacted = await _ask(world, COMPACT, model="fairlead/all")
    assert compacted.message["fairlead"]["model"] == "script2/scripted-2"
    assert [len(model.requests) for model in world.models] == [0, 1, 1]


async def test_compaction_is_counted_and_audited_as_other_requests_to_models(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    async with responses_world(tmp_path, ScriptedTurn(), audit="all", audit_file=log) as world:
        await _ask(world, COMPACT, "my secrets")
        series = await metric_values(world.gateway)
    model = {"gen_ai_provider_name": "script0", "gen_ai_request_model": "scripted"}
    assert series["fairlead_model_requests_total"] == {label_set(**model, outcome="ok"): 1}
    tokens = series["gen_ai_client_token_usage_sum"]
    assert tokens[label_set(**model, gen_ai_token_type="input")] == 100
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    (line,) = [each for each in lines if each["event"] == "model"]
    assert (line["method"], line["outputTokens"], line["outcome"]) == (COMPACT, 10, "ok")
    assert "secrets" not in log.read_text()


async def test_compaction_is_limited_by_the_tokens_of_the_day(tmp_path: Path) -> None:
    async with responses_world(tmp_path, ScriptedTurn(), ScriptedTurn(), agent_tokens_per_day=100) as world:
        assert (await _ask(world, COMPACT)).status == 200
        limited = await _ask(world, COMPACT)
    assert (limited.status, limited.headers["x-should-retry"]) == (429, "false")
    assert len(world.model.requests) == 1


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        (COMPACT, {"input": "Hi"}, "model"),
        (INPUT_TOKENS, {"input": "Hi"}, "model"),
        (INPUT_TOKENS, {"model": None, "input": "Hi"}, "model"),
        (COMPACT, {"model": "scripted", "input": "Hi", "stream": True}, "stream"),
        (COMPACT, {"model": 1}, "model"),
        (COMPACT, [], None),
    ],
)
async def test_a_body_that_cannot_be_compacted_or_counted_is_refused(
    tmp_path: Path, path: str, body: Any, param: str | None
) -> None:
    async with responses_world(tmp_path) as world:
        refused = await post(world.gateway, path, body)
    assert (refused.status, refused.message["error"]["param"]) == (400, param)
    assert refused.message["error"]["type"] == "invalid_request_error"
    assert not world.model.requests


@pytest.mark.parametrize("path", [COMPACT, INPUT_TOKENS])
async def test_errors_of_the_provider_and_of_other_methods_have_openais_format(tmp_path: Path, path: str) -> None:
    async with responses_world(tmp_path, ScriptedTurn("slow down", status=429, headers={"retry-after": "7"})) as world:
        refused = await _ask(world, path, model="nobody-has-it")
        unknown = await _ask(world, path, metadata={"a": "b"})
        put = await ask(world.gateway, Ask(verb="PUT", target=path, body=b""))
        options = await ask(world.gateway, Ask(verb="OPTIONS", target=path, body=b""))
        limited = await _ask(world, COMPACT)
    assert (refused.status, refused.message["error"]["code"]) == (404, "model_not_found")
    assert (unknown.status, unknown.message["error"]["code"]) == (400, "unknown_parameter")
    for other in (put, options):
        assert other.status == 404
        assert f"POST {path}" in other.message["error"]["message"]
    assert (limited.status, limited.headers["retry-after"]) == (429, "7")


def test_documented_members_of_both_requests_are_those_of_the_sdk() -> None:
    from openai.types.responses.input_token_count_params import InputTokenCountParams
    from openai.types.responses.response_compact_params import ResponseCompactParams

    assert set(ResponseCompactParams.__annotations__) == MEMBERS
    assert set(InputTokenCountParams.__annotations__) == COUNT_MEMBERS


async def test_compaction_runs_no_call_that_waits_for_approval(tmp_path: Path) -> None:
    tool_with_approval = {
        "type": "mcp",
        "server_label": "sums",
        "server_url": "fairlead://demo",
        "require_approval": "always",
    }
    async with responses_world(tmp_path, ScriptedTurn("", [ADD])) as world:
        first = (await respond(world, "Add", tools=[tool_with_approval])).message
        (request,) = [item for item in first["output"] if item["type"] == "mcp_approval_request"]
        approves = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": True}
        continued = await _ask(world, COMPACT, [approves], previous_response_id=first["id"])
        whole = await _ask(world, COMPACT, [USER, *first["output"], approves])
    for refused in (continued, whole):
        assert (refused.status, refused.message["error"]["param"]) == (400, "input")
        assert "send the approvals to /v1/responses, then compact" in refused.message["error"]["message"]
    assert not world.called
