"""The examples of docs/connect/chat-completions.md do what the page says."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from fairlead_gateway.configuration import load_models
from fairlead_llm.scripted import ScriptedCall, ScriptedTurn
from llmworld import llm_world

pytest.importorskip("openai", reason="OpenAI's client is not installed (fairlead[dev])")
PAGE = Path(__file__).parents[3] / "docs" / "connect" / "chat-completions.md"


def block(kind: str) -> str:
    found = re.search(rf"^```{kind}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert found
    return found[1]


def test_the_file_of_providers_is_read(tmp_path: Path) -> None:
    file = tmp_path / "routes.yaml"
    file.write_text(block("yaml"))
    providers = load_models(file).providers
    assert providers is not None
    assert [target.provider for target in providers.targets("fairlead/default")[1]] == ["vllm", "openai"]


async def test_the_client_of_the_page_gets_its_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    turns = [ScriptedTurn("", [ScriptedCall("demo__add", {"a": 1, "b": 2})]), ScriptedTurn("There are 3.")]
    async with llm_world(tmp_path, *turns) as world:
        code = block("python").replace("127.0.0.1:8080", f"127.0.0.1:{world.gateway.port}")
        code = code.replace("gpt-5-mini", "scripted")
        await asyncio.to_thread(exec, code, {})
    assert capsys.readouterr().out == "There are 3.\n"
    assert world.called
