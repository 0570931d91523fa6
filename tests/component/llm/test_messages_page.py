"""The examples of docs/connect/messages.md do what the page says."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from anthropicworld import world
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from page_reader import blocks

pytest.importorskip("anthropic", reason="Anthropic's client is not installed (fairlead[dev])")
PAGE = Path(__file__).parents[3] / "docs" / "connect" / "messages.md"
TURNS = (ScriptedTurn("", [ScriptedCall("demo__add", {"a": 1, "b": 2})]), ScriptedTurn("There are 3."))


def block(kind: str) -> str:
    return (
        blocks(PAGE.read_text("utf-8"), kind)[0]
        .replace("claude-sonnet-5", "scripted")
        .replace("fairlead/default", "scripted")
    )


async def test_the_client_of_the_page_gets_its_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with world(tmp_path, *TURNS) as here:
        code = block("python").replace("127.0.0.1:8080", f"127.0.0.1:{here.gateway.port}")
        await asyncio.to_thread(exec, code, {})
    assert capsys.readouterr().out == "There are 3.\n"
    assert here.called


async def test_the_command_of_the_page_gets_its_answer(tmp_path: Path) -> None:
    async with world(tmp_path, *TURNS) as here:
        command = block("sh").replace("127.0.0.1:8080", f"127.0.0.1:{here.gateway.port}")
        process = await asyncio.create_subprocess_exec("sh", "-c", command, stdout=asyncio.subprocess.PIPE)
        out, _ = await process.communicate()
    assert json.loads(out)["content"][-1]["text"] == "There are 3."
