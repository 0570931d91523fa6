"""Bodies that attackers write so that two parsers read them differently, or so that a parser fails."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairlead_formats.pairs.pair import pair
from fairlead_formats.providers.anthropic.format import ANTHROPIC
from fairlead_formats.providers.gemini.format import GEMINI_EVENTS
from fairlead_formats.providers.openai_chat.format import CHAT
from fairlead_formats.providers.openai_responses.format import RESPONSES
from fairlead_formats.wire.protocol import BadRequest, ModelRound, WireFormat

FORMATS: list[WireFormat] = [CHAT, RESPONSES, ANTHROPIC, GEMINI_EVENTS]
USER_MESSAGES: dict[str, str] = {
    CHAT.name: '"messages":[{"role":"user","content":"WORDS"}]',
    RESPONSES.name: '"input":[{"role":"user","content":"WORDS"}]',
    ANTHROPIC.name: '"max_tokens":9,"messages":[{"role":"user","content":"WORDS"}]',
    GEMINI_EVENTS.name: '"contents":[{"role":"user","parts":[{"text":"WORDS"}]}]',
}
DEEP = "[" * 5000 + "]" * 5000
SPOKEN = [(front, front if front is provider else pair(front, provider)) for front in FORMATS for provider in FORMATS]


def body_with(front: WireFormat, words: str, more: str = "") -> bytes:
    return f'{{"model":"m",{USER_MESSAGES[front.name].replace("WORDS", words)}{more}}}'.encode()


def spellings(body: bytes, twice: bytes) -> bytes:
    """One JSON object with the members of one body, followed by the members of another."""
    return body[:-1] + b"," + twice[1:]


def send_or_refuse(wire: WireFormat, body: bytes) -> bytes:
    """The request for the provider, or the message that refuses it. Any other outcome raises."""
    try:
        return wire.read(body, "m", False).body(ModelRound("claude-sonnet-4-6"))
    except BadRequest as error:
        return str(error).encode()


@pytest.mark.parametrize(("front", "wire"), SPOKEN)
def test_the_last_of_two_members_of_a_name_counts_and_goes_out_alone(front: WireFormat, wire: WireFormat) -> None:
    own = ',"fairlead":{"tools":"OWN"}'
    body = spellings(
        body_with(front, "first", own.replace("OWN", "none")), body_with(front, "last", own.replace("OWN", "auto"))
    )
    read = wire.read(body, "m", False)
    out = read.body(ModelRound("theirs"))
    assert b"last" in out
    assert b"first" not in out
    assert b"fairlead" not in out
    assert json.loads(bytes(read.gateway_options)) == {"tools": "auto"}


@pytest.mark.parametrize(
    "more",
    [
        f',"metadata":{DEEP}',
        f',"tools":[{DEEP}]',
        f',"tools":{DEEP}',
        f',"tool_choice":{DEEP}',
        f',"fairlead":{DEEP}',
        ',"temperature":NaN',
        ',"temperature":1e999',
        ',"tools":[{"type":"\\ud800"}]',
        ',"stream":"\xff"',
    ],
)
@pytest.mark.parametrize(("front", "wire"), SPOKEN)
def test_bodies_that_cannot_be_read_are_refused_or_pass(front: WireFormat, wire: WireFormat, more: str) -> None:
    out = send_or_refuse(wire, body_with(front, "x", more))
    assert b'"x"' in out or 0 < len(out) < 500


HUGE: dict[str, Any] = {"max_tokens": 10**300, "seed": 1e300, "n": 1e30, "top_p": 1e308, "top_k": 10**40}


@pytest.mark.parametrize(("front", "wire"), SPOKEN)
def test_huge_numbers_do_not_break_a_request(front: WireFormat, wire: WireFormat) -> None:
    more = json.dumps(HUGE)[1:-1]
    settings = {"maxOutputTokens": 10**300, "topK": 1e300, "thinkingConfig": {"thinkingBudget": 10**40}}
    body = body_with(front, "x", f',{more},"generationConfig":{json.dumps(settings)}')
    out = send_or_refuse(wire, body)
    assert b'"x"' in out or 0 < len(out) < 500


@pytest.mark.parametrize("depth", [100, 240, 400])
def test_tools_in_tools_are_read_to_any_depth_or_refused(depth: int) -> None:
    nested = '{"type":"namespace","tools":[' * depth + "]}" * depth
    body = f'{{"model":"m","input":[{{"type":"additional_tools","tools":[{nested}]}}],"tools":[{nested}]}}'.encode()
    out = send_or_refuse(RESPONSES, body)
    assert nested.encode() in out or out == b"the body is nested too deeply"
