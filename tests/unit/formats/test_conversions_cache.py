"""Conversions are cached by definition, format and options, in a bounded cache."""

from __future__ import annotations

from typing import Any

from fairlead_formats.registry import find
from fairlead_formats.tool_format import Options
from fairlead_formats.tools.cache import Conversions


def tool(name: str, description: str = "d") -> dict[str, Any]:
    schema = {"type": "object", "properties": {"a": {"type": "string", "title": "A"}}}
    return {"name": name, "description": description, "inputSchema": schema}


def test_a_second_conversion_is_the_first_one() -> None:
    conversions = Conversions()
    gemini = find("gemini")
    first = conversions.convert(gemini, [tool("a")])
    second = conversions.convert(gemini, [tool("a")])
    assert first == second == gemini.convert([tool("a")])
    assert (conversions.hits, conversions.misses) == (1, 1)


def test_other_options_other_formats_and_other_definitions_are_other_conversions() -> None:
    conversions = Conversions()
    conversions.convert(find("openai"), [tool("a")])
    conversions.convert(find("openai"), [tool("a")], Options(strict=True))
    conversions.convert(find("anthropic"), [tool("a")])
    conversions.convert(find("openai"), [tool("a", "other")])
    assert (conversions.hits, conversions.misses, len(conversions)) == (0, 4, 4)


def test_names_are_given_per_request_whatever_is_kept() -> None:
    conversions = Conversions()
    openai = find("openai")
    conversions.convert(openai, [tool("a.b")])
    both = conversions.convert(openai, [tool("a.b"), tool("a_b")])
    assert both.tools[1]["function"]["name"] == "a_b"
    assert both.tools[0]["function"]["name"] != "a_b"


def test_the_least_recently_used_conversion_goes_first() -> None:
    conversions = Conversions(max_entries=2)
    openai = find("openai")
    for name in ("a", "b", "a", "c", "a", "b"):
        conversions.convert(openai, [tool(name)])
    assert (conversions.hits, len(conversions)) == (2, 2)


def test_a_known_hash_is_not_computed_again() -> None:
    conversions = Conversions()
    openai = find("openai")
    conversions.convert(openai, [tool("a")], hashes=["h1"])
    assert conversions.convert(openai, [tool("a")], hashes=["h1"]).tools == openai.convert([tool("a")]).tools
    assert conversions.hits == 1


def test_definitions_that_are_not_json_are_converted_without_being_cached() -> None:
    conversions = Conversions()
    odd = {**tool("a"), "annotations": {1: object()}}
    assert len(conversions.convert(find("openai"), [odd]).tools) == 1
    assert len(conversions) == 0
