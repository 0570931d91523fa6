"""The example of docs/connect/speech.md does what the page says."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from fairlead_speech.scripted.script import SpokenCall, SpokenReply
from speechworld import speech_world

PAGE = Path(__file__).parents[3] / "docs" / "connect" / "speech.md"


async def test_the_client_of_the_page_gets_its_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = re.search(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert found
    replies = SpokenReply("", (SpokenCall("demo__add", {"a": 2, "b": 3}),)), SpokenReply("It is five.")
    async with speech_world(tmp_path, *replies) as world:
        code = found[1].replace("127.0.0.1:8080", f"127.0.0.1:{world.gateway.port}")
        await asyncio.to_thread(exec, code, {})
        assert len(world.called) == 1
    assert capsys.readouterr().out == "It is five.\n"
