"""The examples of docs/connect/bedrock.md do what the page says."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from bedrockworld import bedrock_world
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from fairlead_models.providers import read_providers
from page_reader import blocks

PAGE = Path(__file__).parents[3] / "docs" / "connect" / "bedrock.md"
TURNS = (ScriptedTurn("", [ScriptedCall("demo__add", {"a": 1, "b": 2})]), ScriptedTurn("There are 3."))
MODEL = "us.amazon.nova-pro-v1:0"


def test_the_provider_of_the_page_serves_the_model_of_its_command() -> None:
    text = PAGE.read_text("utf-8")
    providers = read_providers(yaml.safe_load(blocks(text, "yaml")[0])["providers"], {})
    assert providers.target(MODEL).provider == "aws"
    assert providers.by_name["aws"].signing_region == "us-east-1"
    assert f'"model": "{MODEL}"' in blocks(text, "sh")[0]


async def test_the_command_of_the_page_gets_its_answer(tmp_path: Path) -> None:
    async with bedrock_world(tmp_path, *TURNS) as world:
        command = blocks(PAGE.read_text("utf-8"), "sh")[0].replace(MODEL, "scripted")
        command = command.replace("127.0.0.1:8080", f"127.0.0.1:{world.gateway.port}")
        process = await asyncio.create_subprocess_exec("sh", "-c", command, stdout=asyncio.subprocess.PIPE)
        out, _ = await process.communicate()
    assert json.loads(out)["choices"][0]["message"]["content"] == "There are 3."
    assert world.called


async def test_the_program_of_the_page_gets_its_answer(tmp_path: Path) -> None:
    session = pytest.importorskip("botocore.session", reason="AWS's client cannot be beside the Kubernetes client")
    async with bedrock_world(tmp_path, *TURNS) as world:
        address = f"http://127.0.0.1:{world.gateway.port}"
        client = session.get_session().create_client("bedrock-runtime", "us-east-1", endpoint_url=address)
        program = blocks(PAGE.read_text("utf-8"), "python")[0].partition("answer = ")[2]
        program = "answer = " + program.replace("fairlead/default", "scripted")
        scope: dict[str, Any] = {"client": client}
        await asyncio.to_thread(exec, program, scope)
    assert scope["answer"]["output"]["message"]["content"] == [{"text": "There are 3."}]
