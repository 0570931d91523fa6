"""OpenAI's own client gets the same final response with the gateway in between as without it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from fairlead_llm.scripted_model import ScriptedModel
from llmworld import LlmWorld
from provider_ids import with_provider_ids
from responsesworld import responses_world, theirs
from toolservers import serve_asgi
from transcripts import without_marks

openai = pytest.importorskip("openai", reason="OpenAI's client is not installed (fairlead[dev])")
ADD = ScriptedCall("demo__add", {"a": 2, "b": 40})
HEAD = {
    "id": "resp_1",
    "object": "response",
    "created_at": 1,
    "model": "scripted",
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}


def raw(*told: dict[str, Any], end: str | None = "completed", output: Any = (), **members: Any) -> ScriptedTurn:
    """A stream with these events between its first and last events, numbered."""
    begun = {**HEAD, "status": "in_progress", "output": []}
    events = [{"type": "response.created", "response": begun}, {"type": "response.in_progress", "response": begun}]
    events += told
    if end is not None:
        final = {**HEAD, "status": end, "output": output if output is None else list(output), **members}
        events.append({"type": f"response.{end}", "response": final})
    return ScriptedTurn(events=[json.dumps({"sequence_number": number, **each}) for number, each in enumerate(events)])


def message(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": list(parts)}


def message_item(text: str, *annotations: dict[str, Any]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": list(annotations), "logprobs": []}


def item(whole: dict[str, Any], *inside: dict[str, Any], index: int = 0, **begun: Any) -> list[dict[str, Any]]:
    """Events of one item."""
    at = {"output_index": index, "item_id": whole["id"]}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": {**whole, **begun}},
        *({**at, **each, "type": f"response.{each['type']}"} for each in inside),
        {"type": "response.output_item.done", "output_index": index, "item": whole},
    ]


CITED = message_item(
    "See here.", {"type": "url_citation", "url": "https://example.com", "title": "T", "start_index": 0, "end_index": 3}
)
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}}
SEALED = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA\u00e4=="}
REFUSAL = {"type": "refusal", "refusal": "I cannot."}
CUSTOM = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "code", "input": "print(1)"}
PART = {"content_index": 0}
TRANSCRIPTS: dict[str, ScriptedTurn] = {
    "text": ScriptedTurn("Grüße, 世界 — \u2028 und 🪢."),
    "one call": ScriptedTurn("", [ScriptedCall("theirs", {"q": "ä"})]),
    "text and parallel calls": ScriptedTurn("Look.", [ScriptedCall("theirs", {"q": n}) for n in (1, 2)]),
    "a summary of thoughts": ScriptedTurn("So.", thoughts=["First this.", "Then that."]),
    "sealed thoughts": raw(*item(SEALED, encrypted_content=None), output=[SEALED]),
    "a refusal": raw(
        *item(
            message(REFUSAL),
            {"type": "content_part.added", **PART, "part": {"type": "refusal", "refusal": ""}},
            {"type": "refusal.delta", **PART, "delta": "I cannot."},
            {"type": "refusal.done", **PART, "refusal": "I cannot."},
            {"type": "content_part.done", **PART, "part": REFUSAL},
            content=[],
        ),
        output=[message(REFUSAL)],
    ),
    "cut by length": ScriptedTurn("Half", finish_reason="max_output_tokens"),
    "filtered": ScriptedTurn("", finish_reason="content_filter"),
    "failed": ScriptedTurn("no", finish_reason="failed"),
    "a search of the provider's": raw(
        *item(
            SEARCH,
            {"type": "web_search_call.in_progress"},
            {"type": "web_search_call.searching"},
            {"type": "web_search_call.completed"},
            status="in_progress",
        ),
        output=[SEARCH],
    ),
    "annotations": raw(
        *item(
            message(CITED),
            {"type": "content_part.added", **PART, "part": message_item("")},
            {"type": "output_text.delta", **PART, "delta": "See here.", "logprobs": []},
            {
                "type": "output_text.annotation.added",
                **PART,
                "annotation_index": 0,
                "annotation": CITED["annotations"][0],
            },
            {"type": "output_text.done", **PART, "text": "See here.", "logprobs": []},
            {"type": "content_part.done", **PART, "part": CITED},
            content=[],
        ),
        output=[message(CITED)],
    ),
    "events and members that nobody knows": raw(
        {"type": "keepalive"},
        {"type": "response.x.y", "z": [1]},
        *item({**SEARCH, "x": {"z": 1.0}}, {"type": "web_search_call.x", "z": 1.0}),
        output=[{**SEARCH, "x": {"z": 1.0}}],
    ),
    "a freeform call": raw(
        *item(
            CUSTOM,
            {"type": "custom_tool_call_input.delta", "delta": "print(1)"},
            {"type": "custom_tool_call_input.done", "input": "print(1)"},
            input="",
        ),
        output=[CUSTOM],
    ),
    "an output that is null at the end": raw(*item(SEALED), output=None),
    "an error beside its type": raw({"type": "error", "code": "x", "message": "gone", "param": None}, end=None),
    "an error in its own member": raw({"type": "error", "error": {"message": "gone", "code": "x"}}, end=None),
    "an end too early": ScriptedTurn("Half a sen", cut=True),
    "a connection that breaks": ScriptedTurn("Half a sen", breaks=True),
}
TOOLS = [theirs(), {"type": "custom", "name": "code"}]


async def _stream_response(url: str, **members: Any) -> Any:
    """The final response, or the response of the event that ended the stream; None if an error ended it."""
    last: Any = None
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
        try:
            async with client.responses.stream(model="scripted", input="Hi", tools=TOOLS, **members) as events:
                async for event in events:
                    last = event
                return await events.get_final_response()
        except (openai.APIError, RuntimeError):
            return getattr(last, "response", None) if getattr(last, "type", "") in _ENDS else None


_ENDS = ("response.failed", "response.incomplete")


def _base(world: LlmWorld) -> str:
    return f"http://127.0.0.1:{world.gateway.port}/v1"


def _dump_response(response: Any) -> dict[str, Any] | None:
    """A response without the gateway's own members."""
    if response is None:
        return None
    members: dict[str, Any] = with_provider_ids(json.loads(without_marks(json.dumps(response.to_dict()))))
    return {name: value for name, value in members.items() if name not in ("id", "fairlead", "tools")}


@pytest.mark.parametrize("name", TRANSCRIPTS)
async def test_a_stream_of_one_round_is_the_same_with_the_gateway_and_without(tmp_path: Path, name: str) -> None:
    turn = TRANSCRIPTS[name]
    async with serve_asgi(ScriptedModel(turn)) as port:
        bare = await _stream_response(f"http://127.0.0.1:{port}/v1")
    async with responses_world(tmp_path, turn) as world:
        ours = await _stream_response(_base(world))
    assert _dump_response(ours) == _dump_response(bare)
    assert (bare is None) == (turn.cut or turn.breaks or "error" in name)


CALL = ScriptedCall("theirs", {"q": 1})
ROUNDS: dict[str, Sequence[ScriptedTurn]] = {
    "one call": [ScriptedTurn("", [ADD]), ScriptedTurn("42")],
    "text in every round": [ScriptedTurn("First.", [ADD]), ScriptedTurn("Second.", [ADD]), ScriptedTurn("Third.")],
    "parallel calls": [ScriptedTurn("", [ADD, ADD]), ScriptedTurn("84")],
    "thoughts in every round": [ScriptedTurn("", [ADD], thoughts=["hm"]), ScriptedTurn("42", thoughts=["so"])],
    "ours, then the caller's": [ScriptedTurn("", [ADD]), ScriptedTurn("Yours.", [CALL])],
    "ours and the caller's at once": [ScriptedTurn("Both.", [ADD, CALL], thoughts=["hm"])],
    "cut by length later": [ScriptedTurn("", [ADD]), ScriptedTurn("Half", finish_reason="max_output_tokens")],
    "items of the provider's in every round": [
        ScriptedTurn("", [ADD], items=[SEARCH]),
        ScriptedTurn("42", items=[{**SEARCH, "id": "ws_2"}]),
    ],
}


@pytest.mark.parametrize("shows", [False, True])
@pytest.mark.parametrize("name", ROUNDS)
async def test_a_stream_of_several_rounds_is_the_whole_answer(tmp_path: Path, name: str, shows: bool) -> None:
    members: dict[str, Any] = {"extra_body": {"fairlead": {"showCalls": shows}}}
    async with responses_world(tmp_path, *ROUNDS[name]) as world:
        streamed = await _stream_response(_base(world), **members)
    async with responses_world(tmp_path, *ROUNDS[name]) as world:
        async with openai.AsyncOpenAI(base_url=_base(world), api_key="none", max_retries=0) as client:
            whole = await client.responses.create(model="scripted", input="Hi", tools=TOOLS, **members)
        assert len(whole.model_extra["fairlead"]["calls"]) == len(world.called)
    response = _dump_response(streamed)
    same = _dump_response(whole)
    assert response is not None
    assert same is not None
    for each in (*response["output"], *same["output"]):
        if each["type"] == "mcp_list_tools":
            del each["id"]
        for part in (each, *(each.get("content") or ())):  # as the client parsed them
            part.pop("parsed_arguments", None)
            part.pop("parsed", None)
    assert response == same


async def test_equal_item_ids_of_two_rounds_are_distinguished(tmp_path: Path) -> None:
    again = {
        "type": "message",
        "id": "msg_0",
        "role": "assistant",
        "status": "completed",
        "content": [message_item("Hm.")],
    }
    turns = [ScriptedTurn("", [ADD], items=[again]), ScriptedTurn("", items=[again])]
    async with responses_world(tmp_path, *turns) as world:
        final = await _stream_response(_base(world))
    first, second = final.output
    assert [with_provider_ids(each.id) for each in (first, second)] == ["msg_0", "msg_0"]
    assert first.id != second.id
    assert first.content == second.content


async def test_a_clients_own_retries_see_the_providers_status(tmp_path: Path) -> None:
    async with (
        responses_world(tmp_path, ScriptedTurn("later", status=429)) as world,
        openai.AsyncOpenAI(base_url=_base(world), api_key="none", max_retries=0) as client,
    ):
        with pytest.raises(openai.RateLimitError):
            await client.responses.create(model="scripted", input="Hi")
        with pytest.raises(openai.NotFoundError, match="no provider serves"):
            await client.responses.create(model="unknown", input="Hi")
        with pytest.raises(openai.BadRequestError, match="send the whole conversation"):
            await client.responses.create(model="scripted", input="Hi", previous_response_id="resp_x")


async def test_a_client_asks_about_its_answers(tmp_path: Path) -> None:
    async with (
        responses_world(tmp_path, ScriptedTurn("", [ADD]), ScriptedTurn("42")) as world,
        openai.AsyncOpenAI(base_url=_base(world), api_key="none", max_retries=0) as client,
    ):
        created = await client.responses.create(model="scripted", input="Add")
        retrieved = await client.responses.retrieve(created.id)
        assert retrieved.to_dict() == created.to_dict()
        items = [each async for each in client.responses.input_items.list(created.id)]
        assert items[0].content == "Add"
        with pytest.raises(openai.BadRequestError, match="background"):
            await client.responses.cancel(created.id)
        await client.responses.delete(created.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(created.id)
