"""The call on each tool server's page gets the answer that the page shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from commands import fairlead
from fairlead_servers.table import SERVERS
from servedtools import served_over_http

PAGES = Path(__file__).parents[3] / "docs" / "configure" / "servers"


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.timeout(120)
async def test_the_call_of_a_page_gets_its_answer(name: str, tmp_path: Path) -> None:
    text = (PAGES / f"{name}.md").read_text()
    blocks = re.findall(r"```(?:sh|text)\n(.*?)```", text, re.DOTALL)
    *before, serving, calling = blocks[0].splitlines()
    serve = shlex.split(serving.removesuffix(" &"))
    call = shlex.split(calling)
    assert (serve[:3], call[:2]) == (["fairlead", "serve", name], ["fairlead", "call"])
    settings = dict(word.split("=", 1) for at, word in enumerate(serve) if serve[at - 1] == "--set")
    for command in before:
        words = shlex.split(command)
        assert words[0] == "fairlead"
        assert (await fairlead(*words[1:], FAIRLEAD_DATA=str(tmp_path)))[0] == 0

    async with served_over_http(name, tmp_path, settings) as url:
        code, out, err = await fairlead(*call[1 : call.index("--url")], "--url", url)

    assert (code, err) == (0, "")
    assert out == blocks[1]


def test_the_list_of_pages_is_that_of_the_servers() -> None:
    listed = re.findall(r"^\| \[([a-z-]+)\]\(\1\.md\)", (PAGES / "index.md").read_text(), re.MULTILINE)
    assert listed == list(SERVERS)
