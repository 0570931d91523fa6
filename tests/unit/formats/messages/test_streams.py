"""Calls assembled from valid and from malformed streams of providers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from fairlead_formats.messages.call import CUT_OFF, MAX_ARGUMENT_BYTES, InvalidCall, ModelCall
from fairlead_formats.messages.streams import Assembler
from fairlead_formats.names import Names
from fairlead_formats.registry import message_format

Event = dict[str, Any]


def chat(*calls: Event, finish: str | None = None, choice: int = 0) -> Event:
    return {"choices": [{"index": choice, "delta": {"tool_calls": list(calls)}, "finish_reason": finish}]}


def piece(index: int | None, arguments: str | None = None, ident: str | None = None, name: str | None = None) -> Event:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {key: value for key, value in (("index", index), ("id", ident)) if value is not None} | {
        "function": function
    }


def run(assembling: Assembler, events: list[Any]) -> list[tuple[str, str, Any]]:
    """(id, name, arguments or the reason why they are unusable) of each call in a complete stream."""
    calls: list[ModelCall] = []
    for event in events:
        calls.extend(assembling.feed(event))
    calls.extend(assembling.close())
    return [(c.id, c.name, c.arguments.reason if isinstance(c.arguments, InvalidCall) else c.arguments) for c in calls]


A = ("a", "now", {"city": "Köln"})
B = ("b", "later", {"days": 2})

TWICE = "the id 'a' belongs to an earlier call of this message; repeat the call with another id"
CHAT: dict[str, tuple[list[Any], list[Any]]] = {
    "one call": (
        [
            chat(piece(0, "", "a", "now")),
            chat(piece(0, '{"city":')),
            chat(piece(0, '"Köln"}')),
            chat(finish="tool_calls"),
        ],
        [A],
    ),
    "interleaved indices": (
        [
            chat(piece(0, "", "a", "now"), piece(1, "", "b", "later")),
            chat(piece(1, '{"days"')),
            chat(piece(0, '{"city":"Kö')),
            chat(piece(1, ":2}")),
            chat(piece(0, 'ln"}')),
            chat(finish="tool_calls"),
        ],
        [A, B],
    ),
    "events as text, with the end mark": ([json.dumps(chat(piece(0, '{"city":"Köln"}', "a", "now"))), "[DONE]"], [A]),
    "no arguments at all": (
        [chat(piece(0, "", "a", "now")), chat(piece(0, "")), chat(finish="tool_calls")],
        [("a", "now", {})],
    ),
    "no end": ([chat(piece(0, '{"city":"Kö', "a", "now"))], [("a", "now", CUT_OFF)]),
    "no end, but whole arguments": ([chat(piece(0, '{"city":"Köln"}', "a", "now"))], [A]),
    "no end before any argument": ([chat(piece(0, "", "a", "now"))], [("a", "now", CUT_OFF)]),
    "cut off by the token limit": (
        [chat(piece(0, '{"city":', "a", "now")), chat(finish="length")],
        [("a", "now", CUT_OFF)],
    ),
    "the same index for every call": (
        [
            chat(piece(0, '{"city":"Köln"}', "a", "now")),
            chat(piece(0, '{"days":2}', "b", "later")),
            chat(finish="stop"),
        ],
        [A, B],
    ),
    "no index": (
        [
            chat(piece(None, '{"city":', "a", "now")),
            chat(piece(None, '"Köln"}')),
            chat(piece(None, '{"days":2}', "b", "later")),
            chat(finish="stop"),
        ],
        [A, B],
    ),
    "id and name in every piece": (
        [chat(piece(0, '{"city":', "a", "now")), chat(piece(0, '"Köln"}', "a", "now")), chat(finish="stop")],
        [A],
    ),
    "another choice": (
        [
            chat(piece(0, "{}", "x", "x"), choice=1),
            chat(piece(0, '{"city":"Köln"}', "a", "now")),
            chat(finish="tool_calls", choice=1),
            chat(finish="tool_calls"),
        ],
        [A],
    ),
    "arguments as an object": (
        [chat({"index": 0, "id": "a", "function": {"name": "now", "arguments": A[2]}}), chat(finish="stop")],
        [A],
    ),
    "an id twice": (
        [chat(piece(0, "{}", "a", "now"), piece(1, "{}", "a", "now")), chat(finish="stop")],
        [("a", "now", {}), ("a", "now", TWICE)],
    ),
    "no call": ([{"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}, "[DONE]"], []),
    "usage without choices, and noise": (
        [
            {"choices": [], "usage": {}},
            "not json",
            None,
            7,
            chat(piece(0, '{"city":"Köln"}', "a", "now")),
            chat(finish="stop"),
        ],
        [A],
    ),
}


@pytest.mark.parametrize("what", CHAT)
def test_calls_of_a_chat_stream(what: str) -> None:
    events, expected = CHAT[what]
    assert run(message_format("openai").assembler(), events) == expected


WITHOUT_IDS: dict[str, tuple[list[Any], list[Any]]] = {
    "no ids, and one index": (
        [
            chat(piece(0, '{"city":"Köln"}', name="now")),
            chat(piece(0, '{"days":2}', name="later")),
            chat(finish="stop"),
        ],
        [A, B],
    ),
    "empty ids, and no index": (
        [
            chat(piece(None, '{"city":"Köln"}', "", "now")),
            chat(piece(None, '{"days":2}', "", "later")),
            chat(finish="stop"),
        ],
        [A, B],
    ),
    "several in one piece, without ids": (
        [chat(piece(0, '{"city":"Köln"}', name="now"), piece(0, '{"days":2}', name="later")), chat(finish="stop")],
        [A, B],
    ),
    "several in one piece, whose arguments follow": (
        [chat(piece(0, "", "", "now"), piece(0, "", "", "later")), chat(piece(0, '{"days":2}')), chat(finish="stop")],
        [("a", "now", {}), B],
    ),
    "a name without an id in every piece": (
        [
            chat(piece(0, '{"city":', name="now")),
            chat(piece(0, '"Köln"}', name="now")),
            chat(piece(0, "", name="now")),
            chat(finish="stop"),
        ],
        [A],
    ),
}


@pytest.mark.parametrize("what", WITHOUT_IDS)
def test_calls_without_distinct_ids_get_new_ids(what: str) -> None:
    events, expected = WITHOUT_IDS[what]
    calls = run(message_format("openai").assembler(), events)
    assert [call[1:] for call in calls] == [call[1:] for call in expected]
    assert len({ident for ident, _, _ in calls} - {""}) == len(expected)


def test_the_old_function_call_streams_too() -> None:
    deltas = [{"name": "now", "arguments": ""}, {"arguments": '{"city":'}, {"arguments": '"Köln"}'}]
    events = [{"choices": [{"index": 0, "delta": {"function_call": delta}}]} for delta in deltas]
    assembling = message_format("openai-functions").assembler()
    calls = [call for event in [*events, chat(finish="function_call")] for call in assembling.feed(event)]
    assert [(call.name, call.arguments, call.kind) for call in calls] == [("now", {"city": "Köln"}, "function_call")]


def test_names_are_mapped_back_as_in_whole_messages() -> None:
    names = Names(["files/read file"])
    safe = names.safe_name("files/read file")
    calls = run(message_format("openai").assembler(names), [chat(piece(0, "{}", "a", safe)), chat(finish="tool_calls")])
    assert calls == [("a", "files/read file", {})]


def test_arguments_do_not_grow_beyond_their_bound() -> None:
    assembling = message_format("openai").assembler()
    chunk = "x" * (MAX_ARGUMENT_BYTES // 4)
    assembling.feed(chat(piece(0, "", "a", "now")))
    for _ in range(100):
        assert assembling.feed(chat(piece(0, chunk))) == []
    (call,) = assembling.feed(chat(finish="tool_calls"))
    assert isinstance(call.arguments, InvalidCall)
    assert call.arguments.reason == "the arguments exceed 1048576 characters"


def item(ident: str, name: str, arguments: str, status: str = "completed") -> Event:
    return {
        "type": "function_call",
        "id": f"fc_{ident}",
        "call_id": ident,
        "name": name,
        "arguments": arguments,
        "status": status,
    }


def added_event(index: int, ident: str, name: str) -> Event:
    return {"type": "response.output_item.added", "output_index": index, "item": item(ident, name, "", "in_progress")}


def delta(index: int, ident: str, text: str) -> Event:
    kind = "response.function_call_arguments.delta"
    return {"type": kind, "item_id": f"fc_{ident}", "output_index": index, "delta": text}


def done_event(index: int, ident: str, text: str) -> Event:
    kind = "response.function_call_arguments.done"
    return {"type": kind, "item_id": f"fc_{ident}", "output_index": index, "arguments": text}


def item_done(index: int, ident: str, name: str, text: str) -> Event:
    return {"type": "response.output_item.done", "output_index": index, "item": item(ident, name, text)}


COMPLETED = {"type": "response.completed", "response": {"output": [item("a", "now", '{"city":"Köln"}')]}}
RESPONSES: dict[str, tuple[list[Any], list[Any]]] = {
    "one call": (
        [
            added_event(0, "a", "now"),
            delta(0, "a", '{"city":'),
            delta(0, "a", '"Köln"}'),
            done_event(0, "a", '{"city":"Köln"}'),
            item_done(0, "a", "now", '{"city":"Köln"}'),
            COMPLETED,
        ],
        [A],
    ),
    "interleaved items": (
        [
            added_event(0, "a", "now"),
            added_event(1, "b", "later"),
            delta(1, "b", '{"da'),
            delta(0, "a", '{"city":'),
            delta(1, "b", 'ys":2}'),
            delta(0, "a", '"Köln"}'),
            item_done(1, "b", "later", '{"days":2}'),
            item_done(0, "a", "now", '{"city":"Köln"}'),
        ],
        [B, A],
    ),
    "only the end": ([COMPLETED], [A]),
    "an end that says nothing new": ([item_done(0, "a", "now", '{"city":"Köln"}'), COMPLETED, COMPLETED], [A]),
    "an item whose end is missing": (
        [
            added_event(0, "a", "now"),
            done_event(0, "a", '{"city":"Köln"}'),
            {"type": "response.completed", "response": {}},
        ],
        [A],
    ),
    "a stream that broke off": ([added_event(0, "a", "now"), delta(0, "a", '{"city":')], [("a", "now", CUT_OFF)]),
    "a stream that broke off at once": ([added_event(0, "a", "now")], [("a", "now", CUT_OFF)]),
    "a response that ran into its limit": (
        [
            added_event(0, "a", "now"),
            delta(0, "a", '{"ci'),
            {"type": "response.incomplete", "response": {"output": []}},
        ],
        [("a", "now", CUT_OFF)],
    ),
    "pieces alone": ([added_event(0, "a", "now"), delta(0, "a", '{"city":"Köln"}'), item_done(0, "a", "now", "")], [A]),
    "no arguments": ([added_event(0, "a", "now"), item_done(0, "a", "now", "")], [("a", "now", {})]),
    "text and noise": ([{"type": "response.output_text.delta", "delta": "x"}, "data", None, COMPLETED], [A]),
}


@pytest.mark.parametrize("what", RESPONSES)
def test_calls_of_a_responses_stream(what: str) -> None:
    events, expected = RESPONSES[what]
    assert run(message_format("openai-responses").assembler(), events) == expected


def start(index: int, ident: str, name: str, given: Any = None) -> Event:
    block = {"type": "tool_use", "id": ident, "name": name, "input": given if given is not None else {}}
    return {"type": "content_block_start", "index": index, "content_block": block}


def grow(index: int, text: str) -> Event:
    return {"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": text}}


def stop(index: int) -> Event:
    return {"type": "content_block_stop", "index": index}


ANTHROPIC: dict[str, tuple[list[Any], list[Any]]] = {
    "two calls behind a text": (
        [
            {"type": "message_start", "message": {}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hm"}},
            stop(0),
            {"type": "ping"},
            start(1, "a", "now"),
            grow(1, ""),
            grow(1, '{"city": '),
            grow(1, '"Köln"}'),
            stop(1),
            start(2, "b", "later"),
            grow(2, '{"days":2}'),
            stop(2),
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
            {"type": "message_stop"},
        ],
        [A, B],
    ),
    "interleaved blocks": (
        [
            start(0, "a", "now"),
            start(1, "b", "later"),
            grow(1, '{"days":'),
            grow(0, '{"city":"Köln"}'),
            grow(1, "2}"),
            stop(1),
            stop(0),
        ],
        [B, A],
    ),
    "no input": (
        [
            start(0, "a", "now"),
            grow(0, ""),
            stop(0),
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        ],
        [("a", "now", {})],
    ),
    "no input, and a message_delta with only usage before the stop reason": (
        [
            start(0, "a", "now"),
            stop(0),
            {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 1}},
            {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}},
        ],
        [("a", "now", CUT_OFF)],
    ),
    "no input, and no end": ([start(0, "a", "now"), grow(0, ""), stop(0)], [("a", "now", {})]),
    "the input in the start": ([start(0, "a", "now", A[2]), stop(0)], [A]),
    "no stop": ([start(0, "a", "now"), grow(0, '{"city":"Köln"}'), {"type": "message_stop"}], [A]),
    "a stream that broke off": ([start(0, "a", "now"), grow(0, '{"ci')], [("a", "now", CUT_OFF)]),
    "a stream that broke off at once": ([start(0, "a", "now")], [("a", "now", CUT_OFF)]),
    "an error in the middle": (
        [start(0, "a", "now"), {"type": "error", "error": {"type": "overloaded_error"}}],
        [("a", "now", CUT_OFF)],
    ),
    "what the provider runs itself": (
        [
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "server_tool_use", "id": "s", "name": "web_search"},
            },
            grow(0, "{}"),
            stop(0),
        ],
        [],
    ),
}


@pytest.mark.parametrize("what", ANTHROPIC)
def test_calls_of_an_anthropic_stream(what: str) -> None:
    events, expected = ANTHROPIC[what]
    assert run(message_format("claude").assembler(), events) == expected


def start_event(index: int, ident: str, name: str) -> Event:
    use = {"toolUseId": ident, "name": name}
    return {"contentBlockStart": {"contentBlockIndex": index, "start": {"toolUse": use}}}


def delta_event(index: int, text: str) -> Event:
    return {"contentBlockDelta": {"contentBlockIndex": index, "delta": {"toolUse": {"input": text}}}}


def stop_event(index: int) -> Event:
    return {"contentBlockStop": {"contentBlockIndex": index}}


def test_calls_of_a_bedrock_stream() -> None:
    text = {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "Hm"}}}
    whole = [
        {"messageStart": {"role": "assistant"}},
        text,
        stop_event(0),
        start_event(1, "a", "now"),
        delta_event(1, '{"city":'),
        start_event(2, "b", "later"),
        delta_event(2, '{"days":2}'),
        delta_event(1, '"Köln"}'),
        stop_event(2),
        stop_event(1),
        {"messageStop": {"stopReason": "tool_use"}},
    ]
    assert run(message_format("bedrock").assembler(), whole) == [B, A]
    assert run(message_format("bedrock").assembler(), [start_event(0, "a", "now"), stop_event(0), whole[-1]]) == [
        ("a", "now", {})
    ]
    assert run(message_format("bedrock").assembler(), [start_event(0, "a", "now"), delta_event(0, '{"ci')]) == [
        ("a", "now", CUT_OFF)
    ]


def test_calls_of_streams_that_send_them_whole() -> None:
    def content(**call: Any) -> Event:
        return {"candidates": [{"content": {"parts": [{"functionCall": call}], "role": "model"}}]}

    calls = run(
        message_format("gemini").assembler(),
        [content(name="now", args=A[2]), content(name="now", args=A[2]), {"candidates": []}],
    )
    assert [call[1:] for call in calls] == [("now", A[2]), ("now", A[2])]
    assert len({call[0] for call in calls}) == 2
    live = {"toolCall": {"functionCalls": [{"id": "a", "name": "now", "args": A[2]}]}}
    assert run(message_format("gemini-live").assembler(), [{"serverContent": {}}, live]) == [A]


arguments = st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=10), max_size=4)


@settings(max_examples=examples(50), deadline=None)
@given(sent=st.lists(arguments, min_size=1, max_size=4), data=st.data())
def test_however_a_message_is_cut_into_pieces_its_calls_are_the_same(sent: list[Event], data: st.DataObject) -> None:
    pieces: list[tuple[int, str]] = []
    for index, document in enumerate(sent):
        text = json.dumps(document)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
        pieces.extend((index, text[a:b]) for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True))
    order = data.draw(st.permutations([index for index, _ in pieces]))
    queues = {index: [text for at, text in pieces if at == index] for index in range(len(sent))}
    mixed = [(index, queues[index].pop(0)) for index in order]
    expected = [(f"c{index}", "t", document) for index, document in enumerate(sent)]

    opened = [chat(piece(index, "", f"c{index}", "t")) for index in range(len(sent))]
    of_chat = [*opened, *(chat(piece(index, text)) for index, text in mixed), chat(finish="tool_calls")]
    assert run(message_format("openai").assembler(), of_chat) == expected

    started = [start(index, f"c{index}", "t") for index in range(len(sent))]
    stops = [stop(index) for index in range(len(sent))]
    of_anthropic = [*started, *(grow(index, text) for index, text in mixed), *stops]
    assert run(message_format("anthropic").assembler(), of_anthropic) == expected

    begun = [added_event(index, f"c{index}", "t") for index in range(len(sent))]
    ended = [item_done(index, f"c{index}", "t", "") for index in range(len(sent))]
    of_responses = [*begun, *(delta(index, f"c{index}", text) for index, text in mixed), *ended]
    assert run(message_format("responses").assembler(), of_responses) == expected
