"""The work for input of a hostile caller or provider grows at most linearly with its bytes. Work is counted in bytecode
instructions, whose number does not depend on the load of the machine.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from fairlead_formats.neutral.answers import RoundBorder, part_texts
from fairlead_formats.neutral.conversation import TextPart
from fairlead_formats.neutral.members import MAX_ENTRIES, MAX_PARTS
from fairlead_formats.pairs.pair import pair
from fairlead_formats.providers.anthropic.format import ANTHROPIC
from fairlead_formats.providers.gemini.format import GEMINI_EVENTS
from fairlead_formats.providers.openai_chat.format import CHAT
from fairlead_formats.providers.openai_responses.format import RESPONSES
from fairlead_formats.wire.protocol import BadRequest, ModelRound, StoredTurn, WireFormat
from fairlead_formats.wire.raw_json import MAX_MEMBERS, add_usage


def operations(work: Callable[[], object]) -> int:
    """Number of bytecode instructions that the work executes, without the work of built-in functions."""
    count = 0

    def trace(stack_frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        stack_frame.f_trace_opcodes = True
        stack_frame.f_trace_lines = False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # otherwise CPython 3.12 reports no opcodes, whatever trace() sets
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


SMALL = 30
LARGE = 120
ALLOWED = 1.5 * LARGE / SMALL
"""Maximum growth of linear work, with a margin for the work that does not depend on n. Quadratic work grows by 16."""


def encode(**members: Any) -> bytes:
    return json.dumps({"model": "m", "max_tokens": 5, **members}).encode()


def chat_turns(n: int) -> bytes:
    """One message with all calls, followed by the results in reverse order with user messages in between."""
    calls = [{"id": f"c{i}", "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in range(n)]
    behind = [
        each
        for i in reversed(range(n))
        for each in ({"role": "tool", "tool_call_id": f"c{i}", "content": "x"}, {"role": "user", "content": "y"})
    ]
    return encode(messages=[{"role": "assistant", "content": None, "tool_calls": calls}, *behind])


def nameless_results(n: int) -> bytes:
    parts: list[Any] = [{"functionCall": {"name": f"f{i % 7}", "args": {}}} for i in range(n)]
    answers = [
        {"role": "user", "parts": [{"functionResponse": {"name": f"f{i % 7}", "response": {}}}]} for i in range(n)
    ]
    return encode(contents=[{"role": "model", "parts": parts}, *answers])


def response_items(n: int) -> bytes:
    calls = [{"type": "function_call", "call_id": f"c{i}", "name": "f", "arguments": "{}"} for i in range(n)]
    behind = [
        each
        for i in reversed(range(n))
        for each in (
            {"type": "function_call_output", "call_id": f"c{i}", "output": "x"},
            {"role": "system", "content": "y"},
        )
    ]
    return encode(input=[*calls, *behind])


def blocks(n: int) -> bytes:
    calls = [{"type": "tool_use", "id": f"c{i}", "name": "f", "input": {}} for i in range(n)]
    behind = [
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"c{i}", "content": "x"}]}
        for i in reversed(range(n))
    ]
    return encode(messages=[{"role": "assistant", "content": calls}, *behind])


def chosen_tools(n: int) -> bytes:
    tools = [{"type": "function", "function": {"name": f"f{i}", "parameters": {"type": "object"}}} for i in range(n)]
    named = [{"type": "function", "function": {"name": f"f{i}"}} for i in range(n)]
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": named}}
    return encode(messages=[{"role": "user", "content": "x"}], tools=tools, tool_choice=choice)


def make_reader(front: WireFormat, provider: WireFormat, body: bytes) -> Callable[[], object]:
    return lambda: pair(front, provider).read(body, "m", False)


@pytest.mark.parametrize(
    ("front", "body"),
    [
        (CHAT, chat_turns),
        (GEMINI_EVENTS, nameless_results),
        (RESPONSES, response_items),
        (ANTHROPIC, blocks),
        (CHAT, chosen_tools),
    ],
)
@pytest.mark.parametrize("provider", [CHAT, RESPONSES, ANTHROPIC, GEMINI_EVENTS], ids=lambda wire: wire.name)
def test_a_translation_is_linear_in_calls_and_results(
    front: WireFormat, body: Callable[[int], bytes], provider: WireFormat
) -> None:
    if front is provider:
        return
    make_reader(front, provider, body(2))()  # fills caches before the measurement
    small, large = (operations(make_reader(front, provider, body(n))) for n in (SMALL, LARGE))
    assert large < small * ALLOWED


def kept_results(n: int) -> Callable[[], object]:
    """Restores a turn of calls whose results are in reverse order, half of them stored and half sent by the client."""
    model = {"role": "model", "parts": [{"functionCall": {"id": f"c{i}", "name": "f", "args": {}}} for i in range(n)]}
    parts = [{"functionResponse": {"id": f"c{i}", "name": "f", "response": {}}} for i in reversed(range(n))]
    ours, theirs = ({"role": "user", "parts": half} for half in (parts[::2], parts[1::2]))
    files = [json.dumps({"role": "user", "parts": [{"text": str(i)}]}).encode() for i in range(n)]
    before = json.dumps(model).encode()
    result = json.dumps(ours).encode()
    contents = [Raw(before), Raw(json.dumps(theirs).encode())]
    turn = StoredTurn(GEMINI_EVENTS.name, [before], [result, *files])
    return lambda: GEMINI_EVENTS.restore(contents, {0: turn})


def allowed_servers(n: int) -> Callable[[], object]:
    """Reads a tool choice that names the same server n times."""
    tool = {"type": "mcp", "server_label": "s", "server_url": "fairlead://demo"}
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp", "server_label": "s"}] * n}
    body = encode(input="x", tools=[tool], tool_choice=choice)
    ours = [json.dumps({"type": "function", "name": f"demo__f{i}"}).encode() for i in range(n)]
    return lambda: RESPONSES.read(body).body(ModelRound("m", injected_tools=ours))


@pytest.mark.parametrize("work", [kept_results, allowed_servers])
def test_a_translation_within_a_family_takes_linear_time(work: Callable[[int], Callable[[], object]]) -> None:
    work(2)()
    assert operations(work(LARGE)) < operations(work(SMALL)) * ALLOWED


def test_each_function_of_a_server_is_allowed_one_time() -> None:
    tool = {"type": "mcp", "server_label": "s", "server_url": "fairlead://demo"}
    entries = [{"type": "mcp", "server_label": "s", "name": "b"}, {"type": "mcp", "server_label": "s"}]
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [*entries, {"type": "web_search"}, *entries]}
    ours = [json.dumps({"type": "function", "name": f"demo__{name}"}).encode() for name in "ab"]
    body = RESPONSES.read(encode(input="x", tools=[tool], tool_choice=choice)).body(
        ModelRound("m", injected_tools=ours)
    )
    names = [tool.get("name") for tool in json.loads(body)["tool_choice"]["tools"]]
    assert names == ["demo__b", "demo__a", None]


def test_texts_of_rounds_are_joined_with_an_empty_line() -> None:
    parts = (TextPart("a"), TextPart("b"), RoundBorder(), RoundBorder(), TextPart("c"))
    assert part_texts(parts) == "ab\n\nc"


@pytest.mark.parametrize(
    "body",
    [
        encode(messages=[{"role": "user", "content": [{"type": "text", "text": ""}] * MAX_PARTS}]),
        encode(messages=[{"role": "user", "content": ""}] * (MAX_ENTRIES + 1)),
        encode(messages=[{"role": "user", "content": "x"}], tools=[{"type": "custom"}] * (MAX_PARTS + 1)),
    ],
)
def test_entries_beyond_the_bound_are_refused_with_their_parts(body: bytes) -> None:
    with pytest.raises(BadRequest, match="exceed the limit"):
        pair(CHAT, ANTHROPIC).read(body)


def test_parts_of_results_and_functions_of_groups_count() -> None:
    inner = [{"type": "text", "text": ""}] * MAX_PARTS
    result = {"type": "tool_result", "tool_use_id": "c", "content": inner}
    with pytest.raises(BadRequest, match=r"messages"):
        pair(ANTHROPIC, CHAT).read(encode(messages=[{"role": "user", "content": [result]}]))
    group = {"functionDeclarations": [{"name": "f"}] * MAX_PARTS}
    body = encode(contents=[{"role": "user", "parts": [{"text": "x"}]}], tools=[group])
    with pytest.raises(BadRequest, match=r"tools"):
        pair(GEMINI_EVENTS, CHAT).read(body, "m", False)


def test_a_usage_of_more_members_than_the_bound_does_not_grow() -> None:
    usage = {f"m{i}": 1 for i in range(10 * MAX_MEMBERS)}
    total = add_usage(add_usage({}, usage), {f"n{i}": 1 for i in range(10 * MAX_MEMBERS)})
    assert len(total) == MAX_MEMBERS
    assert msgspec.json.encode(add_usage(total, usage)) == msgspec.json.encode({f"m{i}": 2 for i in range(MAX_MEMBERS)})
