"""Call ids that the gateway generates in place of a provider's."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from fairlead_formats.wire.call_ids import (
    LONGEST_IN_CHAT,
    ProviderCallIds,
    is_made_here,
    may_keep_turn,
    new_id,
    with_provider_ids,
)

CHAT = {"choices": [{"message": {"role": "assistant", "tool_calls": [{"id": "call_0", "type": "function"}]}}]}
ANSWERS: dict[str, dict[str, Any]] = {
    "chat": CHAT,
    "chat stream": {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "call_0", "function": {}}]}}]},
    "responses": {"output": [{"type": "function_call", "id": "fc_1", "call_id": "call_0", "name": "x"}]},
    "responses shell": {"item": {"type": "local_shell_call", "id": "lsh_1", "call_id": "call_0"}},
    "anthropic": {"content": [{"type": "tool_use", "id": "toolu_0", "name": "x", "input": {}}]},
    "anthropic stream": {"content_block": {"type": "tool_use", "id": "toolu_0", "name": "x", "input": {}}},
    "gemini": {"candidates": [{"content": {"parts": [{"functionCall": {"id": "g0", "name": "x", "args": {}}}]}}]},
}


@pytest.mark.parametrize("name", ANSWERS)
def test_ids_in_an_answer_are_the_gateways_and_become_the_providers_again(name: str) -> None:
    sent = json.dumps(ANSWERS[name]).encode()
    replaced = ProviderCallIds().replace(sent)
    assert replaced != sent
    assert with_provider_ids(replaced) == sent


def test_equal_ids_of_ten_thousand_answers_never_meet() -> None:
    sent = json.dumps(CHAT).encode()
    made = [ProviderCallIds().replace(sent) for _ in range(10_000)]
    random.Random(1).shuffle(made)
    assert len(set(made)) == len(made)
    assert {with_provider_ids(answer) for answer in made} == {sent}


def test_events_of_one_answer_name_a_call_alike() -> None:
    ids = ProviderCallIds()
    item = b'{"item":{"type":"function_call","id":"fc_0","call_id":"c0"}}'
    first, second = (json.loads(ids.replace(item))["item"] for _ in range(2))
    assert first == second
    assert (first["id"], first["call_id"] == "c0") == ("fc_0", False)


@pytest.mark.parametrize("ident", ["call_0", "Ab3dEf9hJ", "call_" + "x" * 24])
def test_an_id_of_chat_completions_is_as_short_as_openai_takes_it(ident: str) -> None:
    sent = json.dumps({"tool_calls": [{"id": ident}]}).encode()
    made = json.loads(ProviderCallIds().replace(sent))["tool_calls"][0]["id"]
    assert is_made_here(made)
    assert len(made) <= LONGEST_IN_CHAT


@pytest.mark.parametrize(
    "text", ['{"role":"user","content":"say call_fl-x"}', '{"content":"\\"call_fl-AAAAAAAAAAAAAAAAAAAAAA-x\\""}']
)
def test_texts_that_mention_an_id_stay_as_they_are(text: str) -> None:
    assert with_provider_ids(text.encode()) == text.encode()
    assert ProviderCallIds().replace(text.encode()) == text.encode()


def test_only_ids_of_the_form_that_is_made_here_count_as_such() -> None:
    assert is_made_here(new_id())
    assert not any(map(is_made_here, ("call_0", "functions.theirs:1", "call_" + "x" * 24, "x" * 40, "call_fl-short-1")))


def test_an_id_tells_whether_its_turn_may_have_been_kept() -> None:
    sent = json.dumps(CHAT).encode()
    for keeps in (True, False):
        answer = ProviderCallIds(keepable=keeps).replace(sent)
        ident = json.loads(answer)["choices"][0]["message"]["tool_calls"][0]["id"]
        assert is_made_here(ident)
        assert may_keep_turn(ident) == keeps
        assert with_provider_ids(answer) == sent
    assert not may_keep_turn("call_0")


def test_an_id_that_comes_in_several_turns_stays_unique_where_the_api_demands_it() -> None:
    turns = [ProviderCallIds().replace(b'{"type":"tool_use","id":"call_0"}') for _ in range(3)]
    body = b"[" + b",".join([*turns, turns[0], turns[2]]) + b"]"
    ids = [each["id"] for each in json.loads(with_provider_ids(body))]
    assert ids[0] == ids[3] == "call_0"
    assert ids[2] == ids[4]
    assert len(set(ids)) == 3
    assert all(is_made_here(ident) for ident in set(ids) - {"call_0"})
    assert {each["id"] for each in json.loads(with_provider_ids(body, unique=False))} == {"call_0"}


def test_an_id_that_the_client_sends_is_given_to_no_other_call() -> None:
    made = ProviderCallIds().replace(b'{"type":"tool_use","id":"call_0"}')
    body = b'[{"type":"tool_use","id":"call_0"},' + made + b"]"
    first, second = (each["id"] for each in json.loads(with_provider_ids(body)))
    assert first == "call_0"
    assert is_made_here(second)


def test_an_event_without_an_id_stays_as_it_is_when_ids_are_known() -> None:
    ids = ProviderCallIds()
    call = b'{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"call_1"}]}}]}'
    replaced = ids.replace(call)
    assert b'"call_1"' not in replaced
    assert b"-call_1" in replaced
    text = b'{"choices":[{"delta":{"content":"call_1"}}]}'
    assert ids.replace(text) == text
    assert ids.replace(call) == replaced


def test_generated_ids_have_every_character_in_every_position() -> None:
    random_parts = [new_id().partition("-")[2] for _ in range(2000)]
    assert {len(part) for part in random_parts} == {22}
    assert all(len({part[index] for part in random_parts}) == 62 for index in range(22))
