"""The key that providers' SDKs send is the key of a Fairlead agent; a provider's own key has a separate header."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from google import genai

from fairlead_app.authentication import Trust
from fairlead_formats.scripted_turns import ScriptedTurn
from gatewayworld import scrape
from googleclient import google
from llmworld import LlmWorld, llm_world
from policyworld import Vouching, anybody
from restworld import get, post

KNOWN = Trust((Vouching(anybody("ada"), anybody("eve")),))
KEYED = {"callerKey": "Allow"}


async def _openai(url: str, key: str) -> list[str]:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as client:
        return [model.id async for model in client.models.list()]


async def _anthropic(url: str, key: str) -> list[str]:
    async with anthropic.AsyncAnthropic(base_url=url, api_key=key, max_retries=0) as client:
        return [model.id async for model in client.models.list()]


async def _gemini(url: str, key: str) -> list[str]:
    async with google(url, key) as client:
        return [str(model.name) async for model in await client.models.list()]


SDKS: dict[str, tuple[Callable[[str, str], Awaitable[list[str]]], type[Exception], str]] = {
    "openai": (_openai, openai.AuthenticationError, ""),
    "anthropic": (_anthropic, anthropic.AuthenticationError, ""),
    "gemini": (_gemini, genai.errors.ClientError, "models/"),
}


def _url(world: LlmWorld) -> str:
    return f"http://127.0.0.1:{world.gateway.port}"


@pytest.mark.parametrize("sdk", SDKS)
async def test_the_key_of_each_sdk_is_that_of_an_agent(tmp_path: Path, sdk: str) -> None:
    listed, refused, prefix = SDKS[sdk]
    async with llm_world(tmp_path, trust=KNOWN) as world:
        assert await listed(_url(world), "ada") == [f"{prefix}scripted", f"{prefix}fairlead/all"]
        with pytest.raises(refused, match="neither an API key nor a token that this gateway accepts"):
            await listed(_url(world), "mallory")


@pytest.mark.parametrize(
    ("target", "headers"),
    [
        ("/v1/models", {"authorization": "Bearer ada"}),
        ("/v1/models", {"x-api-key": "ada"}),
        ("/v1/models", {"x-api-key": "ada", "authorization": "Bearer ada"}),
        ("/v1beta/models", {"x-goog-api-key": "ada"}),
        ("/v1beta/models?key=ada", {}),
        ("/v1beta/models?pageSize=5&key=%61da", {}),
    ],
)
async def test_every_field_of_a_key_is_taken_on_the_paths_of_providers(
    tmp_path: Path, target: str, headers: dict[str, str]
) -> None:
    async with llm_world(tmp_path, trust=KNOWN) as world:
        assert (await get(world.gateway, target, **headers)).status == 200


@pytest.mark.parametrize(("target", "headers"), [("/v1/tools", {"x-api-key": "ada"}), ("/v1/tools?key=ada", {})])
async def test_no_other_path_takes_a_key_from_these_fields(
    tmp_path: Path, target: str, headers: dict[str, str]
) -> None:
    async with llm_world(tmp_path, trust=KNOWN) as world:
        assert (await get(world.gateway, target, **headers)).status == 401


async def test_two_different_keys_are_refused_with_where_each_belongs(tmp_path: Path) -> None:
    async with llm_world(tmp_path, trust=KNOWN) as world:
        both = {"authorization": "Bearer ada", "x-api-key": "sk-of-a-provider"}
        refused = await get(world.gateway, "/v1/models", **both)
        query = await get(world.gateway, "/v1beta/models?key=eve", **{"x-goog-api-key": "ada"})
    assert refused.status == query.status == 400
    assert "x-fairlead-provider-key" in refused.message["error"]["message"]
    assert query.message["error"]["status"] == "INVALID_ARGUMENT"
    assert b"sk-of" not in refused.body


async def test_refusals_have_the_format_of_the_requested_api(tmp_path: Path) -> None:
    async with llm_world(tmp_path, trust=KNOWN) as world:
        chat = await post(world.gateway, "/v1/chat/completions", {})
        messages = await post(world.gateway, "/v1/messages", {})
        gemini = await post(world.gateway, "/v1beta/models/m:generateContent", {})
    assert chat.status == messages.status == gemini.status == 401
    assert chat.message["error"]["type"] == "invalid_request_error"
    assert messages.message["type"] == "error"
    assert messages.message["error"]["type"] == "authentication_error"
    assert gemini.message["error"]["status"] == "UNAUTHENTICATED"


async def test_a_key_in_a_query_is_in_no_log_no_metric_and_no_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = tmp_path / "audit.log"
    caplog.set_level("DEBUG")
    async with llm_world(tmp_path, trust=KNOWN, audit="all", audit_file=log) as world:
        answers = [await get(world.gateway, f"/v1beta/models/x?key={key}&x=1") for key in ("ada", "secret-mallory")]
        metrics = await scrape(world.gateway)
    assert [answer.status for answer in answers] == [404, 401]
    told = [metrics, caplog.text, log.read_text(), *(answer.body.decode() for answer in answers)]
    assert not any("secret-mallory" in text for text in told)


async def _chat(world: LlmWorld, key: str | None, **more: Any) -> Any:
    headers = {} if key is None else {"x-fairlead-provider-key": key}
    return await world.chat("Hi", headers={"authorization": "Bearer ada", **headers}, **more)


async def test_a_callers_own_key_goes_to_a_provider_that_takes_it_and_nowhere_else(tmp_path: Path) -> None:
    own = tmp_path / "key"
    own.write_text("of the installation")
    provider = {"callerKey": "Allow", "keyFile": str(own)}
    async with llm_world(tmp_path, ScriptedTurn("a"), ScriptedTurn("b"), provider=provider, trust=KNOWN) as world:
        assert (await _chat(world, "sk-mine")).status == 200
        assert (await _chat(world, None)).status == 200
        first, second = world.model.headers
    assert first["authorization"] == "Bearer sk-mine"
    assert second["authorization"] == "Bearer of the installation"
    assert not any("fairlead" in name or "ada" in value for name, value in first.items())


@pytest.mark.parametrize(
    ("provider", "key", "status", "why"),
    [
        ({}, "sk-mine", 403, "callerKey is Refuse"),
        ({"callerKey": "Require"}, None, 401, "callerKey is Require"),
        (KEYED, "two words", 400, "one key"),
    ],
)
async def test_an_error_about_a_refused_or_missing_key_names_the_setting(
    tmp_path: Path, provider: dict[str, Any], key: str | None, status: int, why: str
) -> None:
    async with llm_world(tmp_path, ScriptedTurn("a"), provider=provider, trust=KNOWN) as world:
        answer = await _chat(world, key)
        assert not world.model.requests
    assert answer.status == status
    assert why in answer.message["error"]["message"]
    assert b"sk-mine" not in answer.body


async def test_a_route_continues_with_the_providers_that_accept_the_request(tmp_path: Path) -> None:
    scripts = [[ScriptedTurn("plain")], [ScriptedTurn("keyed")]]
    async with llm_world(tmp_path, *scripts, providers=[{}, {"callerKey": "Require"}], trust=KNOWN) as world:
        keyed = await _chat(world, "sk-mine", model="fairlead/all")
        plain = await _chat(world, None, model="fairlead/all")
    assert keyed.message["choices"][0]["message"]["content"] == "keyed"
    assert plain.message["choices"][0]["message"]["content"] == "plain"
    assert "authorization" not in world.model.headers[0]


async def test_the_limit_of_one_callers_key_holds_up_nobody_else(tmp_path: Path) -> None:
    turns = [ScriptedTurn("slowly", status=429, headers={"retry-after": "60"}), ScriptedTurn("at once")]
    async with llm_world(tmp_path, *turns, provider=KEYED, trust=KNOWN) as world:
        limited = await _chat(world, "sk-mine")
        other = await _chat(world, "sk-other")
    assert limited.status == 429
    assert other.message["choices"][0]["message"]["content"] == "at once"


async def test_the_current_content_of_a_provider_key_file_is_used(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("first\n")
    async with llm_world(tmp_path, ScriptedTurn("a"), ScriptedTurn("b"), provider={"keyFile": str(file)}) as world:
        assert (await world.chat("Hi")).status == 200
        file.write_text("second")
        assert (await world.chat("Hi")).status == 200
        file.write_text("")
        empty = await world.chat("Hi")
        file.unlink()
        gone = await world.chat("Hi")
    assert [headers["authorization"] for headers in world.model.headers] == ["Bearer first", "Bearer second"]
    assert empty.status == gone.status == 502
    assert "is empty" in empty.message["error"]["message"]
    assert str(tmp_path) not in gone.message["error"]["message"]
