"""Malformed results of tools are mended for the clients of each era."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from msgspec import Raw

from fairlead_gateway.calls.translation import translate
from fairlead_mcp import jsonrpc, tool_results
from resultcorpus import BLOCKS, CORPUS, ERAS, PIXEL, WHOLE, refusals

LEGACY, MODERN = ERAS
INFO = b'{"name":"s","version":"1"}'
TEXT = {"type": "text", "text": "x"}
SIZE = 8 << 20


def convert(given: Any, client: str = LEGACY, server: str = LEGACY) -> dict[str, Any]:
    """A result of a server of the revision `server`, as a client of the revision `client` gets it."""
    raw = given if isinstance(given, bytes) else json.dumps(given).encode()
    made = translate.result(raw, from_modern=server == MODERN, to_modern=client == MODERN, server_info=INFO)
    result: dict[str, Any] = json.loads(bytes(made.result))
    return result


def content(given: Any) -> Any:
    return convert({"content": given})["content"]


@pytest.mark.parametrize("server", ERAS)
@pytest.mark.parametrize("client", ERAS)
def test_every_result_is_valid_by_the_schema_of_the_client(client: str, server: str) -> None:
    assert len(CORPUS) > 1500
    for given in CORPUS:
        if server == MODERN and isinstance(given.get("resultType"), str) and given["resultType"] != "complete":
            continue  # this type of result is refused for an older client, and has another schema for a newer one
        made = convert(given, client, server)
        assert refusals(made, client) == [], given


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: str(block["type"]))
def test_a_block_that_clients_take_is_passed_on_as_it_is_beside_one_that_is_mended(block: dict[str, Any]) -> None:
    extended = {**block, "x-unknown": [None, {}]}
    assert content([extended, "odd"]) == [extended, {"type": "text", "text": "odd"}]


@pytest.mark.parametrize("server", ERAS)
def test_a_list_as_structured_content_reaches_clients_of_2026_and_is_left_out_for_older_ones(server: str) -> None:
    given = {"content": [{"type": "text", "text": "[1]"}], "structuredContent": [1]}
    assert convert(given, LEGACY, server) == {"content": [{"type": "text", "text": "[1]"}]}
    assert convert(given, MODERN, server)["structuredContent"] == [1]
    assert convert({"content": [], "structuredContent": [1]}, LEGACY, server) == {"content": [{**TEXT, "text": "[1]"}]}


def test_optional_members_that_are_null_are_as_if_they_were_not_there() -> None:
    given = {"_meta": None, "content": [TEXT], "structuredContent": None, "isError": None}
    assert convert(given) == {"content": [TEXT], "isError": False}
    assert content([{**TEXT, "annotations": None, "_meta": None}]) == [TEXT]
    assert content([{**TEXT, "annotations": {"audience": None, "priority": 1}}]) == [
        {**TEXT, "annotations": {"priority": 1}}
    ]


@pytest.mark.parametrize("client", ERAS)
def test_empty_lists_stand_for_empty_objects(client: str) -> None:
    made = convert({"content": [{**TEXT, "_meta": []}], "_meta": [], "structuredContent": []}, client)
    assert made["content"] == [TEXT]
    assert made["structuredContent"] == ({} if client == LEGACY else [])


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"structuredContent": {"a": 1}}, '{"a":1}'),
        ({"structuredContent": [1, 2], "content": None}, "[1,2]"),
        ({"structuredContent": 7}, "7"),
        ({}, "{}"),
        ({"temperature": 20}, '{"temperature":20}'),
        ({"content": None, "x": 1}, '{"content":null,"x":1}'),
    ],
)
def test_missing_content_is_made_from_structured_content_or_from_the_whole_result(given: Any, text: str) -> None:
    raw = json.dumps(given, separators=(",", ":")).encode()
    for client in ERAS:
        for server in ERAS:
            assert convert(raw, client, server)["content"] == [{"type": "text", "text": text}]


@pytest.mark.parametrize(
    ("given", "blocks"),
    [
        ("a text", [{"type": "text", "text": "a text"}]),
        ({"type": "text", "text": "alone"}, [{"type": "text", "text": "alone"}]),
        (["a", None, {"text": "b"}], [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]),
        (7, [{"type": "text", "text": "7"}]),
        ([{"type": "text", "text": {"a": 1}}], [{"type": "text", "text": '{"a": 1}'}]),
        ([{"type": "text", "text": None}], [{"type": "text", "text": ""}]),
        ([{"type": "video", "x": 1}], [{"type": "text", "text": '{"type": "video", "x": 1}'}]),
        (
            [{"type": "image", "data": f"data:image/webp;base64,{PIXEL}"}],
            [{"type": "image", "data": PIXEL, "mimeType": "image/webp"}],
        ),
        (
            [{"type": "image", "data": PIXEL.rstrip("="), "mimeType": None}],
            [{"type": "image", "data": PIXEL, "mimeType": "image/png"}],
        ),
        ([{"type": "resource_link", "uri": "a:b"}], [{"type": "resource_link", "uri": "a:b", "name": "a:b"}]),
        (
            [{"type": "resource", "resource": {"uri": "a:b", "text": "x", "blob": None, "mimeType": None}}],
            [{"type": "resource", "resource": {"uri": "a:b", "text": "x"}}],
        ),
        (
            [{**TEXT, "annotations": {"audience": ["user", "robot"], "priority": 2, "lastModified": "yesterday"}}],
            [{**TEXT, "annotations": {"audience": ["user"]}}],
        ),
    ],
)
def test_content_of_another_shape_becomes_the_blocks_that_it_means(given: Any, blocks: Any) -> None:
    assert content(given) == blocks


@pytest.mark.parametrize(
    ("given", "is_error"),
    [("true", True), ("yes", True), (1, True), ({"code": 1}, True), ("false", False), (0, False), ([], False)],
)
def test_is_error_of_another_type_becomes_a_boolean(given: Any, is_error: bool) -> None:
    raw = json.dumps({"content": [], "isError": given}).encode()
    made = translate.result(raw, from_modern=False, to_modern=False, server_info=INFO)
    assert (made.is_error, json.loads(bytes(made.result))["isError"]) == (is_error, is_error)


def test_a_result_that_clients_take_is_passed_on_as_the_same_bytes() -> None:
    raw = Raw(json.dumps(WHOLE).encode())
    for modern in (True, False):
        assert translate.result(raw, from_modern=modern, to_modern=modern, server_info=INFO).result is raw
    assert tool_results.conform(raw) is raw


@pytest.mark.parametrize("text", ['a "quoted" \\ text', "ü", "x" * 70_000, '\\"' * 40_000])
def test_texts_of_any_length_are_passed_on_as_the_same_bytes(text: str) -> None:
    raw = json.dumps({"content": [{"type": "text", "text": text}]}, ensure_ascii=False).encode()
    assert translate.result(raw, from_modern=False, to_modern=False, server_info=INFO).result is raw


def test_a_long_text_of_another_type_is_mended_too() -> None:
    made = content([{"type": "text", "text": ["x" * 70_000]}])
    assert made == [{"type": "text", "text": json.dumps(["x" * 70_000])}]


@pytest.mark.parametrize("item", [b"0", b"{}", b"null", b'{"type":"text"}', b'"x"', b"[]"])
def test_a_result_of_many_odd_blocks_is_one_text(item: bytes) -> None:
    raw = b'{"content":[' + b",".join([item] * 300_000) + b"]}"
    (block,) = convert(raw)["content"]
    assert block["type"] == "text"


def test_more_than_max_blocks_become_one_text() -> None:
    blocks = [{"type": "text", "text": "more than a few words each"}] * (jsonrpc.MAX_BLOCKS + 1)
    (block,) = content(blocks)
    assert json.loads(block["text"]) == blocks


def test_over_a_thousand_blocks_of_which_one_is_odd_are_one_text() -> None:
    assert len(content([*[TEXT] * 999, "odd"])) == 1000
    (block,) = content([*[TEXT] * 1000, "odd"])
    assert block["text"].endswith(', "odd"]')


HOSTILE = {
    "a URI": lambda: b'{"content":[{"type":"resource_link","name":"x","uri":"a://%b "}]}' % (b"a" * SIZE),
    "parameters of a data URL": lambda: b'{"content":[{"type":"image","data":"data:;%b"}]}' % (b";" * SIZE),
    "spaces in base64": lambda: b'{"content":[{"type":"image","data":"%b"}]}' % (b"A " * (SIZE // 2)),
    "members": lambda: b"{%b}" % b",".join(b'"a%d":0' % number for number in range(SIZE // 12)),
    "blocks": lambda: b'{"content":[%b,0]}' % b",".join([b'{"type":"text","text":""}'] * 300_000),
    "escapes": lambda: (
        b'{"content":[%b]}' % b",".join([b'{"type":"x","text":"%b"}' % (b'\\"' * 4000)] * (SIZE // 8100))
    ),
}


@pytest.mark.timing
@pytest.mark.parametrize("name", HOSTILE)
def test_the_worst_results_hold_the_event_loop_up_for_a_moment(name: str) -> None:
    raw = HOSTILE[name]()
    begin = time.process_time()
    made = translate.result(raw, from_modern=False, to_modern=True, server_info=INFO)
    assert time.process_time() - begin < 2
    assert refusals(json.loads(bytes(made.result)), MODERN) == []


@pytest.mark.parametrize("number", ["9" * 5000, "1e999"])
def test_numbers_beyond_the_range_of_a_double_are_left_out(number: str) -> None:
    link = f'{{"type":"resource_link","uri":"a:b","name":"b","size":{number}}}'
    raw = f'{{"isError":{number},"_meta":{{"progressToken":{number}}},"content":[{link}]}}'
    assert convert(raw.encode()) == {
        "isError": False,
        "_meta": {},
        "content": [{"type": "resource_link", "uri": "a:b", "name": "b"}],
    }


def test_a_result_with_too_many_members_keeps_only_those_that_mcp_defines() -> None:
    many = ",".join(f'"a{number}":0' for number in range(250_000))
    made = convert(f'{{"content":"x","isError":true,{many}}}'.encode())
    assert made == {"content": [TEXT], "isError": True}


def test_results_that_are_not_objects_are_not_mended() -> None:
    for raw in (b"[]", b"null", b'"x"', b"7"):
        with pytest.raises(jsonrpc.UNREADABLE):
            tool_results.repair(raw, from_modern=False, any_structured=False)
