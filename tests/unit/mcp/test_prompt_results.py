"""Malformed results about prompts, resources and completions are mended for the clients of each era."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead_gateway.calls.results.outputs import with_cache_hints
from fairlead_gateway.calls.translation import translate
from fairlead_mcp.errors import NotMcp
from resultcorpus import BLOCKS, ERAS, PIXEL, RESULT_META, refusals, variants

LEGACY, MODERN = ERAS
INFO = b'{"name":"s","version":"1"}'
TEXT = {"type": "text", "text": "x"}
COMMON = {"resultType": "complete", "_meta": RESULT_META}
WHOLE: dict[str, tuple[str, dict[str, Any]]] = {
    "prompts/get": (
        "GetPromptResult",
        {**COMMON, "description": "d", "messages": [{"role": "user", "content": block} for block in BLOCKS]},
    ),
    "resources/read": (
        "ReadResourceResult",
        {
            **COMMON,
            "ttlMs": 5,
            "cacheScope": "private",
            "contents": [{"uri": "a:b", "mimeType": "t", "text": "x", "_meta": {}}, {"uri": "a:c", "blob": PIXEL}],
        },
    ),
    "completion/complete": (
        "CompleteResult",
        {**COMMON, "completion": {"values": ["a", "b"], "total": 2, "hasMore": False}},
    ),
}


def convert(method: str, given: Any, client: str = LEGACY, server: str = LEGACY) -> dict[str, Any]:
    """A result of a server of the revision `server`, as a client of the revision `client` gets it. Raises NotMcp."""
    modern = client == MODERN
    made = translate.result(
        json.dumps(given).encode(), from_modern=server == MODERN, to_modern=modern, server_info=INFO, method=method
    )
    result = with_cache_hints(made.result) if modern and method == "resources/read" else made.result
    shown: dict[str, Any] = json.loads(bytes(result))
    return shown


@pytest.mark.parametrize("method", WHOLE)
@pytest.mark.parametrize("server", ERAS)
@pytest.mark.parametrize("client", ERAS)
def test_a_result_leaves_in_the_form_of_the_clients_schema_or_not_at_all(method: str, server: str, client: str) -> None:
    kind, whole = WHOLE[method]
    taken = 0
    for given in (whole, {}, *variants(whole)):
        if server == MODERN and isinstance(given.get("resultType"), str) and given["resultType"] != "complete":
            continue  # another type of result
        try:
            made = convert(method, given, client, server)
        except NotMcp:
            assert method == "resources/read", given
        else:
            taken += 1
            assert refusals(made, client, kind) == [], given
    assert taken > 100


@pytest.mark.parametrize("method", WHOLE)
def test_a_result_that_clients_take_is_passed_on_as_the_same_bytes(method: str) -> None:
    raw = json.dumps(WHOLE[method][1]).encode()
    for modern in (True, False):
        made = translate.result(raw, from_modern=modern, to_modern=modern, server_info=INFO, method=method)
        assert made.result is raw


@pytest.mark.parametrize(
    ("given", "messages"),
    [
        ("hello", [("user", {"type": "text", "text": "hello"})]),
        ([{"role": "system", "content": "s"}], [("user", {"type": "text", "text": "s"})]),
        ([{"role": "assistant", "content": [TEXT, "y"]}], [("assistant", TEXT), ("assistant", {**TEXT, "text": "y"})]),
        ([{"role": "user", "content": {**TEXT, "annotations": None}}], [("user", TEXT)]),
        (None, []),
    ],
)
def test_messages_of_a_prompt_have_one_block_each(given: Any, messages: Any) -> None:
    made = convert("prompts/get", {"messages": given, "description": None})
    assert [(message["role"], message["content"]) for message in made["messages"]] == messages
    assert "description" not in made


def test_contents_of_a_resource_lose_what_is_null_and_have_to_be_named() -> None:
    given = {"uri": "a:b", "text": "x", "blob": None, "mimeType": None}
    assert convert("resources/read", {"contents": given})["contents"] == [{"uri": "a:b", "text": "x"}]
    assert convert("resources/read", {"contents": [{**given, "text": {"a": 1}}]})["contents"][0]["text"] == '{"a": 1}'
    for unnamed in ({"text": "x"}, {"uri": "a:b"}, "x", 7):
        with pytest.raises(NotMcp, match="resources/read violates MCP's schema"):
            convert("resources/read", {"contents": [unnamed]})


def test_a_completion_has_texts_and_a_hundred_at_most() -> None:
    assert convert("completion/complete", {"completion": ["a", 7, None]})["completion"] == {"values": ["a", "7"]}
    many = convert("completion/complete", {"completion": {"values": ["x"] * 150, "total": None, "hasMore": None}})
    assert many["completion"] == {"values": ["x"] * 100, "hasMore": True}


def test_a_request_for_input_of_a_prompt_is_passed_on() -> None:
    given = {"resultType": "input_required", "requestState": "s"}
    assert convert("prompts/get", given, MODERN, MODERN) == given
