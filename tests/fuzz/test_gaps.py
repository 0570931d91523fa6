"""How long others wait for the event loop while it reads a body, an answer or a result that is made to be slow to read.

All calls share the event loop: a call waits for the end of the current iteration, at most 100 ms. Before the limits,
some of these inputs blocked the loop for 0.2 to 22 s.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from fairlead_mcp.read_bounds import LONG_BYTES, MAX_ITEMS, MAX_VALUES
from fuzzed_gateway import LONG
from gappeers import OF_HTTP, gaps_of, gaps_of_redis, gaps_of_speech
from gapworld import MOST_MS, Attack, Filled, gap_world
from gatewayworld import Ask, calling, legacy, modern

pytestmark = pytest.mark.timing

MIB: Final = 1 << 20
REQUEST: Final = 4 * MIB - 4096
LLM_REQUEST: Final = 10 * MIB - 4096
RESULT: Final = 15 * MIB
ANSWER: Final = 31 * MIB
EVENT: Final = 7 * MIB
API_ANSWER: Final = 15 * MIB // 2
API_MS: Final = 30.0
"""Limit for answers of HTTP APIs, which the event loop only copies."""
_HERE: Final = b'"HERE"'
_VALUES: Final = (b"{},", b"1,", b'"",', b'{"a":1},', b"[[],[]],")
_FEWER: Final = 1_040_000
"""Number of values that stays below a limit of 2**20."""
_MESSAGE: Final = b'{"role":"user","content":"x"}'


def _members(size: int) -> bytes:
    """Members of an object with different names."""
    return b"".join(b'"k%06d":1,' % number for number in range(size // 12 - 400))


def _mcp(name: str, request: Ask, opening: bytes, unit: bytes, closing: bytes, size: int = REQUEST) -> Attack:
    """A message in which the text HERE is replaced."""
    before, _, after = json.dumps(request.message).encode().partition(_HERE)
    return Attack(f"mcp: {name}", Filled(before + opening, unit, closing + after, size), headers=request.headers)


_OPENING: Final = {
    "protocolVersion": "2025-11-25",
    "clientInfo": {"name": "x", "version": "1"},
    "capabilities": "HERE",
}
_METHODS: Final[Sequence[tuple[str, Mapping[str, Any]]]] = (
    ("tools/list", {"cursor": "HERE"}),
    ("logging/setLevel", {"level": "HERE"}),
    ("initialize", _OPENING),
    ("resources/subscribe", {"uri": "HERE"}),
    ("resources/read", {"uri": "HERE"}),
    ("prompts/get", {"name": "a", "arguments": "HERE"}),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "x"}, "argument": "HERE"}),
    ("notifications/cancelled", {"requestId": "HERE"}),
)


def _mcp_bodies() -> Iterator[Attack]:
    members = _members(REQUEST)
    for era in ("2026-07-28", "2025-11-25"):
        for named in ("free", "constrained", "typed"):
            for unit in _VALUES:
                request = calling(f"demo__{named}", {"x": "HERE"}, era=era)
                yield _mcp(f"arguments of {named} ({era}), {unit.decode()}", request, b"[", unit, b"1]")
        call = modern if era == "2026-07-28" else legacy
        params = {"name": "demo__free", "arguments": {}}
        yield _mcp(f"members of params ({era})", call("tools/call", {**params, "zz": "HERE"}), b"1,", members, b'"z":1')
        yield _mcp(f"a member of params ({era})", call("tools/call", {**params, "zz": "HERE"}), b"[", b"{},", b"1]")
    call_with_meta = modern("tools/call", {"name": "demo__free", "arguments": {}}, zz="HERE")
    yield _mcp("members of _meta", call_with_meta, b"1,", members, b'"z":1')
    yield _mcp("a member of _meta", call_with_meta, b"[", b"{},", b"1]")
    yield _mcp("a repeated member of _meta", call_with_meta, b"[", b'{"a":1,"a":2},', b"1]")
    for unit in (b"{},", b"1,"):
        for method, method_params in _METHODS:
            yield _mcp(f"{method}, {unit.decode()}", legacy(method, method_params), b"[", unit, b"1]")
    yield _mcp("members of capabilities", legacy("initialize", _OPENING), b"{", members, b'"z":1}')
    executing = calling("execute_tool", {"name": "demo__free", "arguments": "HERE"})
    yield _mcp("arguments of execute_tool", executing, b'{"x":[', b"{},", b"1]}")
    headers = legacy("ping").headers
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"},'
    yield Attack("mcp: a batch", Filled(b"[", ping, b"1]", REQUEST), headers=headers)
    broken = calling("demo__free", {"x": "HERE"})
    yield _mcp("NaN", broken, b"[", b"NaN,", b"1]")
    yield _mcp("half of an answer", broken, b"[", b"{},", b"")
    response = b'{"jsonrpc":"2.0","id":1,"result":{"x":['
    yield Attack("mcp: a response", Filled(response, b"{},", b"1]}}", REQUEST), headers=headers)


_CALL: Final = b'{"id":"1","type":"function","function":{"name":"demo__free","arguments":"{}"}}'
_TOOL: Final = b'{"type":"function","function":{"name":"a","parameters":{}}}'


def _rest(path: str, opening: bytes, unit: bytes, closing: bytes) -> Iterator[Attack]:
    for times in _counts(unit):
        filled = Filled(opening, unit, closing, REQUEST, times=times)
        yield Attack(f"rest: {path} {opening[-24:]!r} {times} {unit[:24]!r}", filled, path)


def _rest_bodies() -> Iterator[Attack]:
    chat = b'{"format":"openai-chat",'
    message = b'"message":{"role":"assistant","tool_calls":['
    between = b'{"from":"openai-chat","to":"anthropic",'
    for path in ("/v1/tool-calls", "/v1/tool-calls/predict"):
        for unit in (_CALL + b",", b"{},", b'{"a":1},'):
            yield from _rest(path, chat + message, unit, b"{}]}}")
        yield from _rest(path, chat + b'"stream":[', b"{},", b"{}]}")
        yield from _rest(path, chat + b'"message":{"role":"assistant"},"tools":[', _TOOL + b",", _TOOL + b"]}")
        yield from _rest(
            path,
            chat + b'"message":{"role":"assistant"},"names":{',
            _members(REQUEST).replace(b":1,", b':"a",'),
            b'"a":"a"}}',
        )
    for unit in (_TOOL + b",", b"{},", b"1,"):
        yield from _rest("/v1/tools", chat + b'"tools":[', unit, _TOOL + b"]}")
        yield from _rest("/v1/convert", between + b'"tools":[', unit, _TOOL + b"]}")
    for unit in (_CALL + b",", b"{},"):
        yield from _rest("/v1/convert/messages", between + message, unit, b"{}]}}")
    for unit in (_MESSAGE + b",", b"{},", b"1,"):
        yield from _rest("/v1/plan", b'{"models":["gpt-5-mini"],"messages":[', unit, _MESSAGE + b"]}")
        yield from _rest("/v1/tier", b'{"messages":[', unit, _MESSAGE + b"]}")
    for unit in (b"{},", b"1,"):
        yield from _rest("/v1/executions", b'{"name":"demo__free","arguments":{"x":[', unit, b"1]}}")
    yield from _rest("/v1/executions", b'{"name":"demo__free","arguments":{', _members(REQUEST), b'"z":1}}')
    yield from _rest("/v1/keys", b'{"name":[', b"{},", b"1]}")
    yield from _rest("/v1/servers/demo/approve", b'{"definitions":[', b"{},", b"1]}")


_CHAT: Final = "/v1/chat/completions"
_MESSAGES: Final = "/v1/messages"
_RESPONSES: Final = "/v1/responses"
_GEMINI: Final = "/v1beta/models/gemini-MODEL:generateContent"
_ASKED: Final = b'"messages":[' + _MESSAGE


def _counts(unit: bytes) -> tuple[int, ...]:
    """Numbers of units: below a million values, at a body's limit of values, and at its limit of items."""
    values = sum(map(unit.count, (b",", b"{", b"[")))
    return _FEWER, (MAX_VALUES - 2_000) // values, MAX_ITEMS - 100


def _llm(path: str, opening: bytes, closing: bytes, *units: bytes) -> Iterator[Attack]:
    for unit in units:
        for times in _counts(unit):
            filled = Filled(opening, unit, closing, LLM_REQUEST, times=times)
            yield Attack(f"llm: {path} {opening[:50]!r} {opening[-20:]!r} {times} {unit[:24]!r}", filled, path)


def _llm_bodies() -> Iterator[Attack]:
    values = (b"{},", b"1,", b'{"a":1},')
    chat_call = (
        b',{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"a","arguments":"{\\"x\\":['
    )
    for model in (b"chat", b"responses", b"anthropic", b"gemini"):
        begun = b'{"model":"%b-MODEL",' % model
        chat = begun + _ASKED
        yield from _llm(_CHAT, begun + b'"messages":[', _MESSAGE + b"]}", _MESSAGE + b",", b"{},")
        yield from _llm(_CHAT, chat + b'],"metadata":{"x":[', b"1]}}", *values)
        parameters = b'],"tools":[{"type":"function","function":{"name":"a","parameters":{"x":['
        yield from _llm(_CHAT, chat + parameters, b"1]}}}]}", *values)
        choice = b'],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":['
        yield from _llm(_CHAT, chat + choice, b"{}]}}}", _TOOL + b",", b"{},")
        result = b']}"}}]},{"role":"tool","tool_call_id":"1","content":"x"}]}'
        yield from _llm(_CHAT, chat + chat_call, b"1" + result, b"{},", b"1,")
        yield from _llm(_CHAT, begun + b'"messages":[{"role":"user","content":{"x":[', b"1]}}]}", *values)
        yield from _llm(_CHAT, chat + b'],"fairlead":{"tags":[', b'"b"]}}', b'"a",', b"{},")
        used = b',{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"a","input":{"x":['
        begun = b'{"model":"%b-MODEL","max_tokens":9,' % model
        ended = b'1]}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"x"}]}]}'
        yield from _llm(_MESSAGES, begun + _ASKED + used, ended, *values)
        yield from _llm(_MESSAGES, begun + _ASKED + b'],"tools":[{"name":"a","input_schema":{"x":[', b"1]}}]}", *values)
        parts = b'"messages":[{"role":"user","content":['
        yield from _llm(_MESSAGES, begun + parts, b'{"type":"text","text":"x"}]}]}', b'{"type":"text","text":"x"},')
        yield from _llm(
            f"{_MESSAGES}/count_tokens",
            begun + _ASKED + b'],"tools":[{"name":"a","input_schema":{"x":[',
            b"1]}}]}",
            b"{},",
        )
        begun = b'{"model":"%b-MODEL",' % model
        for unit in (b'{"type":"mcp_approval_response","approval_request_id":"a"},', b'{"role":"user","content":"x"},'):
            yield from _llm(_RESPONSES, begun + b'"input":[', b'{"role":"user","content":"x"}]}', unit)
        yield from _llm(_RESPONSES, begun + b'"input":"x","metadata":{"x":[', b"1]}}", *values)
        yield from _llm(
            _RESPONSES,
            begun + b'"input":"x","tools":[{"type":"function","name":"a","parameters":{"x":[',
            b"1]}}]}",
            *values,
        )
        yield from _llm(
            _RESPONSES,
            begun + b'"input":"x","tools":[{"type":"mcp","server_label":"a","allowed_tools":[',
            b'"a"]}]}',
            b'"a",',
        )
    gemini = b'{"contents":[{"role":"user","parts":[{"text":"x"}]}'
    yield from _llm(_GEMINI, b'{"contents":[{"role":"user","parts":[', b'{"text":"x"}]}]}', b'{"text":"x"},')
    called = b',{"role":"model","parts":[{"functionCall":{"name":"a","args":{"x":['
    answered = b'1]}}}]},{"role":"user","parts":[{"functionResponse":{"name":"a","response":{}}}]}]}'
    yield from _llm(_GEMINI, gemini + called, answered, *values)
    declared = b'],"tools":[{"functionDeclarations":[{"name":"a","parameters":{"x":['
    yield from _llm(_GEMINI, gemini + declared, b"1]}}]}]}", *values)
    yield from _llm("/v1/embeddings", b'{"model":"chat-MODEL","input":[', b'"a"]}', b'"a",', b"1,")


_SHORT: Final = (
    (_CHAT, b'{"model":"%b-MODEL",' + _ASKED + b"]"),
    (_MESSAGES, b'{"model":"%b-MODEL","max_tokens":9,' + _ASKED + b"]"),
    (_RESPONSES, b'{"model":"%b-MODEL","input":"x"'),
)
_TEXT: Final = b'{"type":"text","text":"x"},'
_OF_CHAT: Final = b'{"choices":[{"index":0,"message":{"role":"assistant",'
_END_OF_CHAT: Final = b'},"finish_reason":"stop"}]'
_OF_ANTHROPIC: Final = b'{"type":"message","role":"assistant","stop_reason":"end_turn","content":['
_USES: Final = b'{"type":"tool_use","id":"1","name":"demo__free","input":{"x":['
_OF_GEMINI: Final = b'{"candidates":[{"content":{"role":"model","parts":['
_CALLS: Final = b'{"functionCall":{"name":"demo__free","args":{"x":['
_END_OF_GEMINI: Final = b']},"finishReason":"STOP"}]}'
_ANSWERS: Final = (
    ("unknown", b'{"x":[', b"1]}"),
    ("choices", b'{"choices":[', b'{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}]}'),
    ("content", _OF_ANTHROPIC, _TEXT[:-1] + b"]}"),
    ("output", b'{"id":"r","status":"completed","output":[', b'{"type":"message","role":"assistant","content":[]}]}'),
    ("candidates", _OF_GEMINI, b'{"text":"x"}' + _END_OF_GEMINI),
    ("calls", _OF_CHAT + b'"content":null,"tool_calls":[', _CALL + b"]" + _END_OF_CHAT + b"}"),
    ("usage", _OF_CHAT + b'"content":"x"' + _END_OF_CHAT + b',"usage":{"x":[', b"1]}}"),
    ("arguments", _OF_GEMINI + _CALLS, b"1]}}}" + _END_OF_GEMINI),
    ("input", _OF_ANTHROPIC + _USES, b"1]}}]}"),
    ("error", b'{"error":{"message":"x","details":[', b"1]}}"),
)
_DELTA: Final = b'"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}'
_EVENTS: Final = (
    ("chat", b'data: {"choices":[{"index":0,"delta":{"content":"x"},"x":[', b"1]}]}\n\ndata: [DONE]\n\n"),
    ("anthropic", b"event: content_block_delta\ndata: {" + _DELTA + b',"x":[', b"1]}\n\n"),
    ("responses", b'event: response.completed\ndata: {"type":"response.completed","response":{"output":[', b"1]}}\n\n"),
    ("gemini", b'data: {"candidates":[{"content":{"parts":[{"text":"x"}]},"x":[', b"1]}]}\n\n"),
)


def _model_answer(path: str, begun: bytes, model: bytes, *, stream: bool = False) -> Attack:
    body = (begun % model if b"%b" in begun else begun) + (b',"stream":true}' if stream and b"%b" in begun else b"}")
    if stream:
        path = path.replace("generateContent", "streamGenerateContent?alt=sse")
    return Attack("", Filled(body, b" ", b"", len(body)), path)


def _pairs() -> Iterator[tuple[str, bytes, bytes]]:
    for path, begun in _SHORT:
        for model in (b"chat", b"responses", b"anthropic", b"gemini"):
            yield path, begun, model
    yield _GEMINI, b'{"contents":[{"role":"user","parts":[{"text":"x"}]}]', b"gemini"


_OF_MODEL: Final = {
    b"chat": ("unknown", "choices", "calls", "usage", "error"),
    b"responses": ("unknown", "output", "error"),
    b"anthropic": ("unknown", "content", "input", "error"),
    b"gemini": ("unknown", "candidates", "arguments", "error"),
}


def _answers() -> Iterator[Attack]:
    for path, begun, model in _pairs():
        attack = _model_answer(path, begun, model)
        for shape, opening, closing in _ANSWERS:
            if shape not in _OF_MODEL[model]:
                continue
            for unit in (b"{},", _TEXT, _CALL + b",", b'{"a":[]},'):
                for times in _counts(unit):
                    filled = Filled(opening, unit, closing, ANSWER, times=times)
                    name = f"answer: {path} {model.decode()} {shape} {times} {unit[:24]!r}"
                    status = 400 if shape == "error" else 200
                    yield Attack(name, attack.request, attack.path, answer=filled, status=status)
        streamed = _model_answer(path, begun, model, stream=True)
        for kind, opening, closing in _EVENTS:
            if kind != model.decode():
                continue
            for unit in (b"{},", b'{"a":1},'):
                filled = Filled(opening, unit, closing, EVENT)
                name = f"stream: {path} {model.decode()} {kind} {unit.decode()}"
                yield Attack(name, streamed.request, streamed.path, answer=filled, kind="text/event-stream")


_RESULTS: Final = (
    ("content", b'{"content":[', b'{"type":"text","text":"x"}]}', (b"{},", _TEXT, b'{"type":"text","text":1},')),
    ("structured", b'{"content":[],"structuredContent":{"x":[', b"1]}}", (b"{},", b"1,", b'{"a":1},')),
    ("members", b'{"content":[],"x":[', b"1]}", (b"{},", b"1,")),
    ("meta", b'{"content":[],"_meta":{"x":[', b"1]}}", (b"{},", b"1,")),
    ("text of JSON", b'{"content":[{"type":"text","text":"[', b'1]"}]}', (b"{},", b"1,")),
)


def _results() -> Iterator[Attack]:
    for named in ("free", "typed"):
        body = b'{"format":"openai-chat","message":{"role":"assistant","tool_calls":[%b]}}'
        called = body % _CALL.replace(b"free", named.encode())
        for shape, opening, closing, units in _RESULTS:
            for unit in units:
                filled = Filled(opening, unit, closing, RESULT)
                name = f"{named} {shape} {unit.decode()}"
                for era in ("2026-07-28", "2025-11-25"):
                    request = calling(f"demo__{named}", {}, era=era)
                    yield Attack(f"result: {era} {name}", request, result=filled)
                rest = Filled(called, b" ", b"", len(called))
                yield Attack(f"result: rest {name}", rest, "/v1/tool-calls", result=filled)


_OF_APIS: Final = (
    ("application/json", b'{"x":[', b"1]}", (b"1,", b'"",', b'{"a": 1},\n')),
    ("application/json", b'{"x":"', b'"}', (b"a", b'\\"', b"\\u00e9", "é".encode())),
    ("application/json", b'{"x":[', b"", (b"1,",)),
    ("application/json", b"", b"", (b"[",)),
    ("text/plain", b"", b"", (b"a", b'"', b"\n", b"\x01", b"\xff", "😀".encode())),
    ("text/plain; charset=iso-8859-1", b"", b"", (b"\xe9",)),
    ("text/plain; charset=utf-16", b"", b"", ("é".encode("utf-16-le"),)),
    ("image/png", b"", b"", (b"\x00\xff",)),
    ("", b"", b"\xff", (b"a",)),
)


def _results_of_apis() -> Iterator[Attack]:
    for kind, opening, closing, units in _OF_APIS:
        for unit in units:
            for tool in ("structured", "plain") if kind == "application/json" else ("plain",):
                for era in ("2026-07-28", "2025-11-25"):
                    name = f"api: {era} {tool} {kind} {opening!r} {unit!r}"
                    request = calling(f"api__{tool}", {}, era=era)
                    for size in (LONG_BYTES, API_ANSWER):
                        filled = Filled(opening, unit, closing, size)
                        yield Attack(f"{name} {size}", request, answer=filled, kind=kind, most_ms=API_MS)


PLANES: Final = {
    "mcp": _mcp_bodies,
    "rest": _rest_bodies,
    "llm": _llm_bodies,
    "answers": _answers,
    "results": _results,
    "apis": _results_of_apis,
}
"""Attacks by plane, created on demand, because together they have gigabytes."""


STRIDE: Final = 1 if os.environ.get(LONG) else 10
"""In the short form of the test, one attack in `STRIDE` runs, because neighbors differ only in unit or size."""


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("plane", PLANES)
async def test_slow_documents_do_not_hold_up_the_event_loop(tmp_path: Path, plane: str) -> None:
    made = 0
    slow = []
    async with gap_world(tmp_path) as world:
        for number, attack in enumerate(PLANES[plane]()):
            if number % STRIDE == 0:
                made += 1
                gap = await world.longest_gap_ms(attack)
                if gap > attack.most_ms:
                    slow.append(f"{attack.name}: {gap:.0f} ms")
    assert made >= 5
    assert not slow, slow


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("reader", OF_HTTP)
async def test_slow_answers_of_peers_do_not_hold_up_their_readers(tmp_path: Path, reader: str) -> None:
    assert_short(await gaps_of(reader, tmp_path, 1 if STRIDE == 1 else 3), least=4)


async def test_values_in_redis_that_somebody_else_wrote_do_not_hold_up_their_reader(tmp_path: Path) -> None:
    assert_short(await gaps_of_redis(tmp_path), least=4)


@pytest.mark.timeout(300)
async def test_slow_messages_of_a_speech_session_do_not_hold_up_the_event_loop(tmp_path: Path) -> None:
    assert_short(await gaps_of_speech(tmp_path), least=10)


def assert_short(gaps: Mapping[str, tuple[float, str]], *, least: int) -> None:
    assert len(gaps) >= least
    assert {name: f"{gap:.0f} ms, {ended}" for name, (gap, ended) in gaps.items() if gap > MOST_MS} == {}
