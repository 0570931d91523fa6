"""`fairlead up --llm` as a process: a model that calls tools, either scripted or at a URL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairlead_formats.scripted_turns import ScriptedTurn
from fairlead_llm.scripted_model import ScriptedModel
from toolservers import serve_asgi
from upprocess import DEMO, Up, fairlead_up, manifest, started_up, until_listed

openai = pytest.importorskip("openai", reason="OpenAI's client is not installed (fairlead[dev])")


def _client(up: Up) -> Any:
    (listening,) = [event for event in up.events if event["event"] == "listening"]
    return openai.AsyncOpenAI(base_url=listening["models"], api_key="none", max_retries=0)


MESSAGES = [{"role": "user", "content": "How much rope is in stock?"}]


def _file(folder: Path) -> Path:
    file = folder / "demo.yaml"
    file.write_text(manifest("demo", *DEMO))
    return file


async def test_a_scripted_model_calls_a_tool_and_tells_its_result(tmp_path: Path) -> None:
    async with fairlead_up(_file(tmp_path), "--llm", "scripted", cwd=tmp_path) as up:
        assert up.events[-1]["model"] == "fairlead/default"
        await up.ready("default/demo")
        await until_listed(up.url, "demo")
        async with _client(up) as client:
            assert [model.id async for model in client.models.list()] == ["scripted", "fairlead/default"]
            answer = await client.chat.completions.create(model="fairlead/default", messages=MESSAGES)
    assert json.loads(answer.choices[0].message.content) == {"item": "rope", "pieces": 407}
    assert [call["name"] for call in answer.model_extra["fairlead"]["calls"]] == ["demo__get_stock"]


async def test_a_strict_scripted_model_takes_our_tools_and_rejects_a_bad_one(tmp_path: Path) -> None:
    async with fairlead_up(_file(tmp_path), "--llm", "scripted", "--strict", cwd=tmp_path) as up:
        await up.ready("default/demo")
        await until_listed(up.url, "demo")
        async with _client(up) as client:
            answer = await client.chat.completions.create(model="fairlead/default", messages=MESSAGES)
            assert [call["name"] for call in answer.model_extra["fairlead"]["calls"]] == ["demo__get_stock"]
            bad = {"type": "function", "function": {"name": "mine", "parameters": {"properties": {}}}}
            with pytest.raises(openai.BadRequestError, match="the schema must be of 'type") as caught:
                await client.chat.completions.create(model="fairlead/default", messages=MESSAGES, tools=[bad])
    assert caught.value.code == "invalid_function_parameters"


async def test_a_url_gets_its_own_key_and_the_model_that_is_asked_for(tmp_path: Path) -> None:
    model = ScriptedModel(ScriptedTurn("Hello."))
    async with serve_asgi(model) as port:
        words = (_file(tmp_path), "--llm", f"http://127.0.0.1:{port}/v1")
        environment = {"FAIRLEAD_LLM_KEY": "of the URL", "OPENAI_API_KEY": "of another"}
        async with fairlead_up(*words, cwd=tmp_path, env=environment) as up, _client(up) as client:
            answer = await client.chat.completions.create(model="our-qwen", messages=MESSAGES)
    assert answer.choices[0].message.content == "Hello."
    assert model.requests[0]["model"] == "our-qwen"
    assert model.headers[0]["authorization"] == "Bearer of the URL"


async def test_the_gateways_own_address_is_refused(tmp_path: Path) -> None:
    async with started_up(_file(tmp_path), "--llm", "http://localhost:8080/v1", cwd=tmp_path) as up:
        assert await up.wait_for_end() == 2
        assert "--llm names this gateway's own address" in await up.errors()
