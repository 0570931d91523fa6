"""Paths of Gemini's API: models in paths, token counts, refusals, keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from geminiworld import COUNT, STREAM, events, gemini_world, generate, text, text_content
from llmworld import llm_world
from restworld import get, post


@pytest.mark.parametrize("model", ["scripted", "script0/any", "script0%2Fany", "fairlead/all", "fairlead%2Fall"])
@pytest.mark.parametrize("version", ["v1beta", "v1"])
async def test_models_are_named_in_the_path_with_their_slashes(tmp_path: Path, model: str, version: str) -> None:
    async with gemini_world(tmp_path, ScriptedTurn("Hi")) as world:
        answer = await generate(world, "Hi", model=model, version=version)
    assert text(answer.message) == "Hi"
    assert answer.message["fairlead"]["model"] == f"script0/{'any' if 'any' in model else 'scripted'}"


async def test_the_list_of_models_stays_beside_the_paths_of_gemini(tmp_path: Path) -> None:
    async with gemini_world(tmp_path) as world:
        assert (await get(world.gateway, "/v1/models")).status == 200
        assert (await get(world.gateway, "/v1/models/scripted")).status == 200


async def test_tokens_are_counted_with_the_tools_that_are_injected(tmp_path: Path) -> None:
    whole = {"contents": [text_content("Hi")], "systemInstruction": text_content("Be brief."), "model": "models/other"}
    async with gemini_world(tmp_path) as world:
        with_tools = await generate(world, "Hi", method=COUNT)
        without = await generate(world, "Hi", method=COUNT, fairlead={"tools": "none"})
        counted = await post(
            world.gateway, "/v1beta/models/scripted:countTokens", {"generateContentRequest": whole, "fairlead": {}}
        )
    first, second, third = world.model.requests
    declared = first["generateContentRequest"]["tools"][0]["functionDeclarations"]
    assert [each["name"] for each in declared] == ["demo__add", "demo__fail"]
    assert first["generateContentRequest"]["model"] == "models/scripted"
    assert second == {"contents": [text_content("Hi")]}
    assert third["generateContentRequest"]["systemInstruction"] == text_content("Be brief.")
    assert third["generateContentRequest"]["model"] == "models/scripted"
    assert without.message["totalTokens"] < with_tools.message["totalTokens"] < counted.message["totalTokens"]


async def test_tokens_are_counted_here_for_a_provider_of_another_kind(tmp_path: Path) -> None:
    async with llm_world(tmp_path) as world:
        many = await generate(world, "Hi", method=COUNT)
        few = await generate(world, "Hi", method=COUNT, fairlead={"tools": "none"})
        refused = await generate(world, "Hi", method=COUNT, model="nobody-has-it")
    assert not world.model.requests
    assert many.headers["x-fairlead-estimated"] == "true"
    assert 0 < few.message["totalTokens"] < many.message["totalTokens"]
    assert (refused.status, refused.message["error"]["status"]) == (404, "NOT_FOUND")


async def test_errors_have_the_form_that_sdks_read(tmp_path: Path) -> None:
    async with gemini_world(tmp_path, ScriptedTurn("slow down", status=429, headers={"retry-after": "7"})) as world:
        limited = await generate(world, "Hi")
        unknown = await generate(world, "Hi", model="nobody-has-it")
        empty = await generate(world)
        embedding = await generate(world, "Hi", method="embedContent")
    error = limited.message["error"]
    assert (limited.status, error["message"], limited.headers["retry-after"]) == (429, "slow down", "7")
    assert (unknown.status, unknown.message["error"]["status"]) == (404, "NOT_FOUND")
    assert "nobody-has-it" in unknown.message["error"]["message"]
    assert (empty.status, empty.message["error"]["details"][0]["metadata"]) == (400, {"field": "contents"})
    assert (embedding.status, embedding.message["error"]["code"]) == (404, 404)
    assert ":countTokens" in embedding.message["error"]["message"]


@pytest.mark.parametrize(
    "body", [b"no", b"[]", b'{"contents": {}}', b'{"contents": [', b'{"contents": [1], "tools": [1]']
)
async def test_a_body_that_makes_no_sense_is_refused(tmp_path: Path, body: bytes) -> None:
    async with gemini_world(tmp_path) as world:
        for method in ("generateContent", "countTokens"):
            answer = await post(world.gateway, f"/v1beta/models/scripted:{method}", body)
            assert (answer.status, answer.message["error"]["status"]) == (400, "INVALID_ARGUMENT")


async def test_contents_and_tools_of_any_form_break_nothing(tmp_path: Path) -> None:
    odd = (
        b'{"contents": [1, {"parts": 1}, {"role": "model", "parts": [null, {"functionCall": 1}]}], "tools": [1, null]}'
    )
    async with gemini_world(tmp_path, *[ScriptedTurn("x", status=400)] * 2) as world:
        answer = await post(world.gateway, "/v1beta/models/scripted:generateContent", odd)
    assert answer.status in (400, 502)


async def test_a_model_of_another_kind_answers_in_the_form_of_this_api(tmp_path: Path) -> None:
    turns = [ScriptedTurn("", [ScriptedCall("demo__add", {"a": 1, "b": 2})]), ScriptedTurn("It is 3.")]
    async with llm_world(tmp_path, *turns * 3) as world:
        whole = await generate(world, "Add")
        streamed = await generate(world, "Add", method=STREAM)
        listed = await generate(world, "Add", method=STREAM, query="")
    assert text(whole.message) == text(*events(streamed)) == text(*json.loads(listed.body)) == "It is 3."
    assert len(world.called) == 3


async def test_callers_without_a_key_get_an_error_in_that_format(tmp_path: Path) -> None:
    async with gemini_world(tmp_path, anonymous="deny") as world:
        for version in ("v1", "v1beta"):
            answer = await generate(world, "Hi", version=version)
            assert (answer.status, answer.message["error"]["status"]) == (401, "UNAUTHENTICATED")


async def test_the_provider_gets_its_own_key_and_never_that_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRIPTED_KEY", "provider-key")
    async with gemini_world(tmp_path, ScriptedTurn("Hi"), provider={"keyEnv": "SCRIPTED_KEY"}) as world:
        sent = {"x-goog-api-key": "fl-caller", "x-goog-user-project": "ours"}
        await generate(world, "Hi", headers=sent, query="?key=fl-caller")
    assert world.model.headers[0]["x-goog-api-key"] == "provider-key"
    assert world.model.headers[0]["x-goog-user-project"] == "ours"
    assert "fl-caller" not in str(world.model.headers)
