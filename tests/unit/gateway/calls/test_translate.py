"""Translation of calls and results between eras: which members are added and removed, and that all others stay."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from msgspec import Raw

from fairlead_gateway.calls.translation import translate
from fairlead_gateway.calls.translation.translate import TranslatedResult
from fairlead_gateway.endpoint.inbound import read_meta
from fairlead_mcp.eras import Client, meta_members
from fairlead_mcp.errors import NotMcp
from fairlead_mcp.jsonrpc import decode_object, decode_result
from fairlead_mcp.progress_token import ProgressToken

CLIENT = Client("fairlead", "9")
PREFIX = "io.modelcontextprotocol/"
INFO = b'{"name":"srv","version":"2"}'


def params(text: bytes, *, was: str, to: str, ours: bytes = b"") -> bytes:
    members = decode_object(text)
    token = read_meta(members["_meta"])[1] if ours else None
    members["name"] = Raw(b'"own"')
    declared = meta_members(CLIENT)
    return translate.params(members, declared, token, ours, from_modern=was == "modern", to_modern=to == "modern")


def result(text: bytes, *, was: str, to: str) -> TranslatedResult:
    return translate.result(text, from_modern=was == "modern", to_modern=to == "modern", server_info=INFO)


ARGUMENTS = b'"arguments":{ "a" : 1.50,"a":2,"x":"\\u00e9"}'
ODD = b'{%b,"name":"demo__own","x-unknown":[1 ,2],"_meta":{"traceparent":"00-1"}}' % ARGUMENTS


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_params_within_an_era_change_in_the_name_alone(era: str) -> None:
    assert params(ODD, was=era, to=era) == (
        b'{%b,"name":"own","x-unknown":[1 ,2],"_meta":{"traceparent":"00-1"}}' % ARGUMENTS
    )


def test_towards_a_modern_server_the_envelope_is_ours_and_declares_no_capabilities() -> None:
    sent = json.loads(params(ODD, was="legacy", to="modern"))
    assert sent["_meta"] == {
        "traceparent": "00-1",
        PREFIX + "protocolVersion": "2026-07-28",
        PREFIX + "clientCapabilities": {},
        PREFIX + "clientInfo": {"name": "fairlead", "version": "9"},
    }
    assert (sent["x-unknown"], sent["name"]) == ([1, 2], "own")


def test_a_legacy_client_cannot_smuggle_an_envelope() -> None:
    text = b'{"name":"n","_meta":{"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}'
    assert json.loads(params(text, was="legacy", to="modern"))["_meta"][PREFIX + "clientCapabilities"] == {}


def test_towards_a_legacy_server_the_envelope_goes_and_the_trace_stays() -> None:
    text = b'{"name":"n","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","traceparent":"00-1","k":[]}}'
    assert params(text, was="modern", to="legacy") == b'{"name":"own","_meta":{"traceparent":"00-1","k":[]}}'


def test_a_meta_that_becomes_empty_is_left_out() -> None:
    text = b'{"name":"n","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}'
    assert params(text, was="modern", to="legacy") == b'{"name":"own"}'


def test_a_progress_token_is_replaced_by_ours() -> None:
    text = b'{"name":"n","_meta":{"progressToken":"theirs","traceparent":"00-1"}}'
    assert params(text, was="legacy", to="legacy", ours=b"41") == (
        b'{"name":"own","_meta":{"progressToken":41,"traceparent":"00-1"}}'
    )


def test_a_token_that_begins_like_the_one_asked_for_is_another() -> None:
    token = ProgressToken(b"1", 17)
    assert token.replace_in(b'{"progressToken":1}', b"41") == b'{"progressToken":41}'
    assert token.replace_in(b'{"progressToken":12}', b"41") is None
    assert token.replace_in(b'{"progressToken":1', b"41") is None


@pytest.mark.parametrize(
    ("meta", "told"),
    [
        (b'{"progressToken":7, "x": 1.50}', b'{"progressToken":41, "x": 1.50}'),
        (b'{"a":{"progressToken":1},"progressToken":3}', b'{"a":{"progressToken":1},"progressToken":41}'),
        (b'{"a\\"progressToken":1,"progressToken":2}', b'{"a\\"progressToken":1,"progressToken":41}'),
        (b'{"progress\\u0054oken":7,"x":"\\u00e9"}', b'{"progressToken":41,"x":"\\u00e9"}'),
        (b'{"progressToken":"a,b"}', b'{"progressToken":41}'),
    ],
)
def test_the_progress_token_alone_changes_in_a_meta(meta: bytes, told: bytes) -> None:
    text = b'{"name":"n","_meta":%b}' % meta
    assert params(text, was="legacy", to="legacy", ours=b"41") == b'{"name":"own","_meta":%b}' % told


def test_progress_reaches_the_client_under_its_own_token() -> None:
    seen = translate.progress(
        Raw(b'{"progress":1, "progressToken":41,"x":{}}'), gateway_token=b"41", client_token=b'"theirs"'
    )
    assert seen is not None
    assert json.loads(seen) == {
        "jsonrpc": "2.0",
        "method": "notifications/progress",
        "params": {"progress": 1, "progressToken": "theirs", "x": {}},
    }


@pytest.mark.parametrize("text", [b'{"progress":1,"progressToken":42}', b'{"progress":1}', b"[]", b"7"])
def test_progress_of_another_call_reaches_nobody(text: bytes) -> None:
    assert translate.progress(Raw(text), gateway_token=b"41", client_token=b"1") is None


STRUCTURED = b'{"content":[ {"type":"text","text":"5"} ],"structuredContent":{"b": 1.0,"a":2},"x":null}'


@pytest.mark.parametrize(("was", "to"), [("legacy", "legacy"), ("modern", "modern")])
def test_results_within_an_era_pass_untouched(was: str, to: str) -> None:
    text = STRUCTURED if was == "legacy" else b'{"resultType":"complete", "content":[]}'
    outcome = result(text, was=was, to=to)
    assert (outcome.result, outcome.is_error, outcome.needs_input) == (text, False, False)


def test_a_legacy_result_becomes_modern_without_touching_what_it_had() -> None:
    out = bytes(result(STRUCTURED, was="legacy", to="modern").result)
    assert out.startswith(STRUCTURED[:-1])
    added = json.loads(out)
    assert added["resultType"] == "complete"
    assert added["_meta"] == {PREFIX + "serverInfo": {"name": "srv", "version": "2"}}


@pytest.mark.parametrize("text", [b"{}", b"{ }", b'{"content":[]} \n'])
def test_an_empty_or_padded_result_becomes_valid_json(text: bytes) -> None:
    assert json.loads(bytes(result(text, was="legacy", to="modern").result))["resultType"] == "complete"


def test_a_legacy_result_with_meta_keeps_it_and_is_given_what_lacks() -> None:
    text = b'{"content":[],"_meta":{"k":1},"resultType":"odd"}'
    members = json.loads(bytes(result(text, was="legacy", to="modern").result))
    assert members["_meta"] == {"k": 1, PREFIX + "serverInfo": {"name": "srv", "version": "2"}}
    assert members["resultType"] == "complete"


def test_a_modern_server_that_forgets_the_result_type_is_helped_out() -> None:
    assert json.loads(bytes(result(b'{"content":[]}', was="modern", to="modern").result))["resultType"] == "complete"


def test_a_modern_result_becomes_legacy() -> None:
    meta = b'{"io.modelcontextprotocol/serverInfo":{},"k":1}'
    text = b'{"resultType":"complete","ttlMs":5,"cacheScope":"private","content":[],"isError":true,"_meta":%b}' % meta
    out = result(text, was="modern", to="legacy")
    assert (bytes(out.result), out.is_error) == (b'{"content":[],"isError":true,"_meta":{"k":1}}', True)


def test_a_request_for_input_cannot_reach_a_legacy_client() -> None:
    with pytest.raises(NotMcp, match="input_required"):
        result(b'{"resultType":"input_required","inputRequests":{}}', was="modern", to="legacy")


def test_a_request_for_input_reaches_a_modern_client_untouched() -> None:
    text = b'{"resultType":"input_required","inputRequests":{},"requestState":"v1.x"}'
    assert result(text, was="modern", to="modern").result == text


@pytest.mark.parametrize("text", [b"[]", b"null", b'"x"', b"7", b'{"content":[}'])
@pytest.mark.parametrize("to", ["modern", "legacy"])
def test_results_that_are_not_objects_are_not_mcp(text: Any, to: str) -> None:
    with pytest.raises(NotMcp):
        result(text, was="legacy", to=to)


@pytest.mark.parametrize(("from_modern", "to_modern"), [(True, False), (False, True), (True, True)])
def test_a_result_of_any_depth_is_translated_or_refused(*, from_modern: bool, to_modern: bool) -> None:
    shallow = decode_result(b'{"_meta":{}}')
    for depth in range(900, 1100):
        deep = b'{"_meta":{},"x":%b%b}' % (b"[" * depth, b"]" * depth)
        with contextlib.suppress(NotMcp):
            translate.result(deep, from_modern=from_modern, to_modern=to_modern, server_info=b"{}", members=shallow)
