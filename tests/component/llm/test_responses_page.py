"""The examples of docs/connect/responses.md do what the page says."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path

import pytest

from fairlead_app.configuration import load_models
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from page_reader import blocks
from responsesworld import kinds, respond, responses_world

pytest.importorskip("openai", reason="OpenAI's client is not installed (fairlead[dev])")
PAGE = Path(__file__).parents[3] / "docs" / "connect" / "responses.md"
ADD = ScriptedCall("demo__add", {"a": 1, "b": 2})


def test_the_file_of_providers_is_read(tmp_path: Path) -> None:
    file = tmp_path / "routes.yaml"
    file.write_text(blocks(PAGE.read_text("utf-8"), "yaml")[0])
    providers = load_models(file).providers
    assert providers is not None
    assert [provider.speaks_responses for provider in providers.by_name.values()] == [True, True]


async def test_the_client_of_the_page_gets_its_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    turns = [ScriptedTurn("", [ADD]), ScriptedTurn("There are 3."), ScriptedTurn("None.")]
    async with responses_world(tmp_path, *turns) as world:
        code = blocks(PAGE.read_text("utf-8"), "python")[0].replace("127.0.0.1:8080", f"127.0.0.1:{world.gateway.port}")
        await asyncio.to_thread(exec, code.replace("fairlead/default", "scripted"), {})
    assert capsys.readouterr().out == "There are 3.\nNone.\n"
    assert world.called


async def test_the_command_of_the_page_gets_its_answer(tmp_path: Path) -> None:
    async with responses_world(tmp_path, ScriptedTurn("Hi")) as world:
        line = blocks(PAGE.read_text("utf-8"), "sh")[0].replace("127.0.0.1:8080", f"127.0.0.1:{world.gateway.port}")
        line = line.replace("gpt-5-mini", "scripted")
        env = {**os.environ, "FAIRLEAD_KEY": "none"}
        run = await asyncio.to_thread(subprocess.run, ["bash", "-c", line], capture_output=True, env=env, check=True)
    assert json.loads(run.stdout)["output"][0]["content"][0]["text"] == "Hi"


async def test_the_tool_of_the_page_names_a_server(tmp_path: Path) -> None:
    tool = json.loads(
        blocks(PAGE.read_text("utf-8"), "json")[0]
        .replace("fairlead://shop", "fairlead://demo")
        .replace("get_stock", "add")
    )
    async with responses_world(tmp_path, ScriptedTurn("", [ADD]), ScriptedTurn("3")) as world:
        response = (await respond(world, "Add", tools=[tool])).message
    assert kinds(response["output"]) == ["mcp_list_tools", "mcp_call", "message"]
    assert {item["server_label"] for item in response["output"][:2]} == {"stock"}
