"""Long results of every SDK's usual shapes, shortened and read on in."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest

from fairlead_gateway.core.long_results import LongResult
from fairlead_rest.kept_results import KeptResult, Reading, ReadPassages, read
from fairlead_rest.shortened_results import block_tokens, shown
from fairlead_search.passages import Lines
from sdkservers import SERVERS, results

TOKENS = 400
LINE = "line 2000: the keel is of oak"
encode = msgspec.msgpack.Encoder().encode


def read_on(result: bytes, **asked: Any) -> ReadPassages:
    return read(encode(Reading([KeptResult("s/1", result)], TOKENS, **asked)))


def first_block(result: bytes) -> str:
    """The sentences and the shape that begin a shortened result."""
    short = shown(LongResult(result, TOKENS, "s/1", "read on with read_result(id)", linked=True)).result
    assert short is not None
    blocks = json.loads(short)["content"]
    assert sum(map(block_tokens, blocks)) <= TOKENS
    return str(blocks[0]["text"])


@pytest.mark.parametrize("sdk", SERVERS)
async def test_long_results_of_an_sdk_are_read_on_whatever_their_shape(sdk: str) -> None:
    made = await results(sdk)
    assert {"text", "json_text", "minified", "several", "embedded", "mixed"} <= made.keys()
    for name, result in made.items():
        told = first_block(result)
        (matched,) = read_on(result, grep="keel").passages
        assert "keel" in matched.text, (name, "a pattern finds a line, or the surroundings of a match in a long one")
        rows = re.search(r"^\$(\S*): array, 3,000 rows", told, re.MULTILINE)
        if rows is not None:
            (part,) = read_on(result, path=f"{rows[1]}[1999].part").passages
            assert part.text == "keel", (name, told)
        elif name == "minified":
            assert "Shape:\ntext, 1 line, " in told
            line, column = map(int, matched.text.split(":")[:2])
            (part,) = read_on(result, lines=Lines(line, line, column, column + 400)).passages
            assert LINE in part.text, "a long line is read from the character on that a match names"
        else:
            assert re.search(r"^text, 3,00[01] lines", told, re.MULTILINE), (name, told)
            (part,) = read_on(result, lines=Lines(2000, 2000)).passages
            assert part.text == LINE, name


@pytest.mark.parametrize("sdk", ["Python 1.x", "Python 2.x", "FastMCP"])
async def test_a_text_within_a_model_is_read_by_path_with_lines_or_a_pattern(sdk: str) -> None:
    result = (await results(sdk))["model"]
    assert "$.log: string, 3,000 lines" in first_block(result)
    (part,) = read_on(result, path="log", lines=Lines(2000, 2000)).passages
    assert (part.text, part.where) == (LINE, "log lines 2000-2000")
    (matched,) = read_on(result, path="log", grep="KEEL").passages
    assert matched.text == f"2000: {LINE}"
