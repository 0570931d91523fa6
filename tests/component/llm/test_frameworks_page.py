"""The programs of docs/connect/frameworks.md do a task with a tool of their own beside one of the gateway."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from fairlead_llm.scripted import ScriptedCall, ScriptedTurn
from llmworld import llm_world

PAGE = Path(__file__).parents[3].joinpath("docs/connect/frameworks.md").read_text("utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
PACKAGES = ("agents", "pydantic_ai", "langgraph")
SCRIPT = (
    ScriptedTurn("", [ScriptedCall("demo__add", {"a": 2, "b": 38})]),
    ScriptedTurn("", [ScriptedCall("store", {"place": "harbour"})]),
    ScriptedTurn("There are 40."),
)


def test_each_framework_of_the_page_has_a_program() -> None:
    assert len(PROGRAMS) == len(PACKAGES)
    assert re.search(r"^fairlead up --llm scripted$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("number", range(len(PACKAGES)), ids=PACKAGES)
async def test_a_program_of_the_page_prints_the_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    pytest.importorskip(PACKAGES[number], reason="a framework of the page is not installed (fairlead[dev])")
    async with llm_world(tmp_path, *SCRIPT) as world:
        code = PROGRAMS[number].replace("127.0.0.1:8080", f"127.0.0.1:{world.gateway.port}")
        await asyncio.to_thread(exec, code.replace("fairlead/default", "scripted"), {"__name__": "__main__"})
    assert capsys.readouterr().out == "There are 40.\n"
    assert [call["arguments"] for call in world.called] == [{"a": 2, "b": 38}]
