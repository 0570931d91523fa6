"""The models that callers may use, as each SDK lists them, and errors about APIs that are not offered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from google import genai

from fairlead_app.gateway import Gateway
from fairlead_formats.pairs.provider_apis import APIS
from googleclient import google
from llmworld import LlmWorld, llm_world
from restworld import get, post

PROVIDER = {"models": ["scripted", "gpt-*"], "keyEnv": "A_KEY_THAT_NOBODY_SEES"}


def _url(world: LlmWorld) -> str:
    return f"http://127.0.0.1:{world.gateway.port}"


async def test_openais_client_lists_plain_names_and_routes_and_gets_each(tmp_path: Path) -> None:
    async with (
        llm_world(tmp_path, provider=PROVIDER) as world,
        openai.AsyncOpenAI(base_url=f"{_url(world)}/v1", api_key="none", max_retries=0) as client,
    ):
        listed = [model async for model in client.models.list()]
        route = await client.models.retrieve("fairlead/all")
        matched = await client.models.retrieve("gpt-5-mini")
        with pytest.raises(openai.NotFoundError, match="no provider serves"):
            await client.models.retrieve("claude")
        whole = (await get(world.gateway, "/v1/models")).body
    assert [(model.id, model.owned_by) for model in listed] == [("scripted", "script0"), ("fairlead/all", "fairlead")]
    assert (route.id, matched.id) == ("fairlead/all", "gpt-5-mini")
    assert b"127.0.0.1" not in whole
    assert b"A_KEY" not in whole


async def test_anthropics_client_lists_the_models(tmp_path: Path) -> None:
    async with (
        llm_world(tmp_path) as world,
        anthropic.AsyncAnthropic(base_url=_url(world), api_key="none", max_retries=0) as client,
    ):
        assert [model.id async for model in client.models.list(limit=1)] == ["scripted", "fairlead/all"]
        retrieved = await client.models.retrieve("scripted")
        with pytest.raises(anthropic.NotFoundError, match="no provider serves"):
            await client.models.retrieve("claude")
    assert (retrieved.id, retrieved.max_input_tokens) == ("scripted", 128000)


async def test_googles_client_lists_the_models(tmp_path: Path) -> None:
    async with llm_world(tmp_path) as world:
        async with google(_url(world), "none") as client:
            listed = [model.name async for model in await client.models.list()]
            route = await client.models.get(model="fairlead/all")
            with pytest.raises(genai.errors.ClientError, match="no provider serves"):
                await client.models.get(model="claude")
        older = (await get(world.gateway, "/v1beta/models/scripted")).message
    assert listed == ["models/scripted", "models/fairlead/all"]
    assert route.name == "models/fairlead/all"
    assert older["inputTokenLimit"] == 128000


async def test_the_rest_apis_list_of_all_known_models_is_requested_by_name(tmp_path: Path) -> None:
    async with llm_world(tmp_path) as world:
        models = (await get(world.gateway, "/v1/models?known=true")).message
        unknown = (await get(world.gateway, "/v1/models/never-heard-of?known=true")).message
    assert {"scripted", "gpt-5-mini"} <= {model["id"] for model in models["data"]}
    assert unknown["source"] == "default"


async def _refusal(gateway: Gateway, target: str, **headers: str) -> Any:
    answer = await post(gateway, target, {}, **headers)
    assert answer.status == 404
    return answer.message


async def test_errors_about_missing_resources_have_the_format_of_their_api(tmp_path: Path) -> None:
    async with llm_world(tmp_path) as world:
        for path in ("embeddings", "files", "images/generations", "batches", "completions", "chat/completions/x"):
            refused = await _refusal(world.gateway, f"/v1/{path}")
            for offered in ("POST /v1/chat/completions, ", "GET /v1/models, GET /v1/models/{model:path}"):
                assert offered in refused["error"]["message"]
            assert refused["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("path", ["files", "files/file_1", "messages/batches", "complete", "skills", "agents"])
async def test_errors_about_missing_resources_have_anthropics_format(tmp_path: Path, path: str) -> None:
    async with llm_world(tmp_path) as world:
        refused = await _refusal(world.gateway, f"/v1/{path}", **{"anthropic-version": "2023-06-01"})
    assert (refused["type"], refused["error"]["type"]) == ("error", "not_found_error")
    assert "POST /v1/messages" in refused["error"]["message"]


@pytest.mark.parametrize(
    "path",
    [
        "/upload/v1beta/files",
        "/upload/v1/files",
        "/upload/v1beta/fileSearchStores/s:uploadToFileSearchStore",
        "/v1beta/cachedContents",
        "/v1/cachedContents",
        "/v1/files",
        "/v1/batches/b:cancel",
        "/v1/models/m:batchEmbedContents",
        "/v1alpha/auth_tokens",
    ],
)
async def test_errors_about_missing_resources_have_geminis_format(tmp_path: Path, path: str) -> None:
    async with llm_world(tmp_path) as world:
        refused = await _refusal(world.gateway, path, **{"x-goog-api-key": "any"})
    assert (refused["error"]["code"], refused["error"]["status"]) == (404, "NOT_FOUND")
    assert "POST /v1beta/models/MODEL:generateContent" in refused["error"]["message"]


async def test_the_sdks_of_google_and_anthropic_read_that_files_are_not_offered(tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("a note")
    async with (
        llm_world(tmp_path) as world,
        anthropic.AsyncAnthropic(base_url=_url(world), api_key="none", max_retries=0) as claude,
        google(_url(world), "none") as gemini,
    ):
        with pytest.raises(genai.errors.ClientError, match=r"POST /upload/v1(beta)?/files is not served"):
            await gemini.files.upload(file=note)
        with pytest.raises(anthropic.NotFoundError, match="POST /v1/files is not served"):
            await claude.beta.files.upload(file=note)


async def test_no_path_of_the_rest_api_is_taken_for_one_of_a_provider(tmp_path: Path) -> None:
    async with llm_world(tmp_path) as world:
        rest = (await get(world.gateway, "/openapi.json")).message["paths"]
    below = {path.split("/")[2] for path in rest if path.startswith("/v1/")}
    assert below & frozenset[str]().union(*(api.segments for api in APIS.values())) == {"models"}
