"""Providers' SDKs raise their own error if gateway or provider refuses a key, before or during a stream. They also
count tokens with the same keys.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from google import genai

from fairlead_app.authentication import Trust
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from geminiworld import KIND
from googleclient import google
from llmworld import ANTHROPIC, LlmWorld, llm_world
from policyworld import Vouching, anybody

KNOWN = Trust((Vouching(anybody("ada"), anybody("eve")),))
SECRET = "sk-live-1234"
REFUSED = ScriptedTurn(f"invalid x-api-key: {SECRET} is not valid", status=401)
HI: Any = [{"role": "user", "content": "Hi"}]


async def _chat(url: str, key: str) -> None:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as client:
        async for _ in await client.chat.completions.create(model="scripted", messages=HI, stream=True):
            pass


async def _responses(url: str, key: str) -> None:
    client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)
    async with client, client.responses.stream(model="scripted", input="Hi") as events:
        await events.get_final_response()


async def _messages(url: str, key: str) -> None:
    client = anthropic.AsyncAnthropic(base_url=url, api_key=key, max_retries=0)
    async with client, client.messages.stream(model="scripted", max_tokens=9, messages=HI) as events:
        await events.get_final_message()


async def _gemini(url: str, key: str) -> None:
    async with google(url, key) as client:
        async for _ in await client.models.generate_content_stream(model="scripted", contents="Hi"):
            pass


async def _count_with_anthropic(url: str, key: str, **more: Any) -> int:
    async with anthropic.AsyncAnthropic(base_url=url, api_key=key, max_retries=0) as client:
        counted = await client.messages.count_tokens(model="scripted", messages=HI, **more)
        return int(counted.input_tokens)


async def _count_with_google(url: str, key: str) -> int:
    async with google(url, key) as client:
        counted = await client.models.count_tokens(model="scripted", contents="Hi")
        return int(counted.total_tokens or 0)


class _Sdk:
    """A provider's SDK, used with the gateway and a provider of the same family."""

    def __init__(
        self, ask: Callable[[str, str], Awaitable[object]], provider: Mapping[str, Any], error: type[Exception]
    ) -> None:
        """`error`: exception that the SDK raises for the status 401."""
        self.ask = ask
        self.provider = provider
        self.error = error


SDKS = {
    "chat": _Sdk(_chat, {}, openai.AuthenticationError),
    "responses": _Sdk(_responses, {"responses": True}, openai.AuthenticationError),
    "messages": _Sdk(_messages, ANTHROPIC, anthropic.AuthenticationError),
    "gemini": _Sdk(_gemini, KIND, genai.errors.ClientError),
}
COUNTING = {
    "messages": _Sdk(_count_with_anthropic, ANTHROPIC, anthropic.AuthenticationError),
    "gemini": _Sdk(_count_with_google, KIND, genai.errors.ClientError),
}


def _url(world: LlmWorld) -> str:
    return f"http://127.0.0.1:{world.gateway.port}"


@pytest.mark.parametrize("sdk", SDKS)
async def test_a_stream_with_an_unknown_key_is_the_sdks_error_of_keys(tmp_path: Path, sdk: str) -> None:
    client = SDKS[sdk]
    async with llm_world(tmp_path, ScriptedTurn("Hi"), provider=client.provider, trust=KNOWN) as world:
        with pytest.raises(client.error) as refused:
            await client.ask(_url(world), "mallory")
        assert not world.model.requests
        await client.ask(_url(world), "ada")
    assert "mallory" not in str(refused.value)


@pytest.mark.parametrize("sdk", SDKS)
async def test_an_error_about_a_key_that_the_provider_refuses_has_not_its_text(tmp_path: Path, sdk: str) -> None:
    client = SDKS[sdk]
    async with llm_world(tmp_path, REFUSED, provider=client.provider) as world:
        with pytest.raises(client.error, match="refused the API key") as refused:
            await client.ask(_url(world), "any")
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("sdk", SDKS)
async def test_a_key_that_is_refused_in_the_middle_of_a_stream_is_raised_too(tmp_path: Path, sdk: str) -> None:
    client = SDKS[sdk]
    calls = ScriptedTurn("One.", [ScriptedCall("demo__add", {"a": 2, "b": 40})])
    async with llm_world(tmp_path, calls, REFUSED, provider=client.provider) as world:
        with pytest.raises((openai.APIError, anthropic.APIError, genai.errors.APIError)) as refused:
            await client.ask(_url(world), "any")
    assert len(world.called) == 1
    assert SECRET not in f"{refused.value} {getattr(refused.value, 'body', '')}"


@pytest.mark.parametrize("sdk", COUNTING)
async def test_tokens_are_counted_with_a_known_key_alone(tmp_path: Path, sdk: str) -> None:
    client = COUNTING[sdk]
    async with llm_world(tmp_path, provider=client.provider, trust=KNOWN) as world:
        with pytest.raises(client.error):
            await client.ask(_url(world), "mallory")
        assert not world.model.requests
        counted = await client.ask(_url(world), "ada")
    assert isinstance(counted, int)
    assert counted > 0


async def test_anthropics_client_counts_the_injected_tools_too(tmp_path: Path) -> None:
    async with llm_world(tmp_path, provider=ANTHROPIC) as world:
        alone = await _count_with_anthropic(_url(world), "any", extra_body={"fairlead": {"tools": "none"}})
        with_tools = await _count_with_anthropic(_url(world), "any")
    assert with_tools > alone
    assert [len(request.get("tools", ())) for request in world.model.requests] == [0, 2]
