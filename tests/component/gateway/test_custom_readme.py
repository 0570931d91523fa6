"""The page about writing custom tools: the tests load each of its modules and make each of its calls."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from commands import fairlead
from fairlead_gateway.custom.load import GROUP, load
from gatewayworld import running

README = (Path(__file__).parents[3] / "docs" / "configure" / "custom-tools.md").read_text()
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.S)
BLOCKS: list[tuple[str, str]] = BLOCK.findall(README)
EXAMPLES = [(text, BLOCKS[at + 1 : at + 4]) for at, (language, text) in enumerate(BLOCKS) if language == "python"]
"""Modules of the page, each with the blocks that follow it."""


@pytest.mark.parametrize("example", EXAMPLES, ids=[re.findall(r"def (\w+)", example[0])[-1] for example in EXAMPLES])
async def test_an_example_is_loaded_and_answers_as_it_says(
    example: tuple[str, list[tuple[str, str]]], tmp_path: Path
) -> None:
    source, behind = example
    (command,) = [text.strip() for kind, text in behind if kind == "sh" and "call" in text][:1]
    (expected,) = [text for kind, text in behind if kind == "text"][:1]
    file = tmp_path / "my_tools.py"
    file.write_text(source)
    loaded = load([str(file)], points=())
    assert loaded.problems == ()
    async with running(tmp_path, custom=loaded.tools) as gateway:
        words = shlex.split(command)
        assert words[:2] == ["fairlead", "call"]
        _, out, err = await fairlead(*words[1:], FAIRLEAD_URL=f"http://127.0.0.1:{gateway.port}/mcp")
        assert out + err == expected


def test_examples_of_the_page_are_as_many_as_its_modules_and_results() -> None:
    assert len(EXAMPLES) == sum(language == "text" for language, _ in BLOCKS) == 5


def test_the_group_of_entry_points_is_the_one_that_is_looked_for() -> None:
    (text,) = [text for language, text in BLOCKS if language == "toml"]
    assert list(tomllib.loads(text)["project"]["entry-points"]) == [GROUP]
