"""A client's messages are converted to messages that the API accepts."""

from __future__ import annotations

import json
from typing import Any

from fairlead_formats.providers.anthropic.answer import AnthropicAnswer
from fairlead_formats.providers.anthropic.format import ANTHROPIC
from fairlead_formats.providers.anthropic.history import restore_turns, split_rounds
from fairlead_formats.wire.protocol import StoredTurn

TEXT = {"type": "text", "text": "So."}
CALL = {"type": "tool_use", "id": "t1", "name": "theirs", "input": {}}


RANDOM = "0123456789abcdef" * 2


def thinking_block(number: int, random: str = f"{RANDOM}.") -> dict[str, Any]:
    mark = f"fairlead.{number}.{random}" if number > 1 else ""
    return {"type": "thinking", "thinking": f"Round {number}.", "signature": f"{mark}sig{number}"}


def plain(number: int) -> dict[str, Any]:
    return {**thinking_block(number), "signature": f"sig{number}"}


def split_content(*content: dict[str, Any], calls: bool = True) -> list[Any]:
    raw = json.dumps({"role": "assistant", "content": content}).encode()
    return [json.loads(bytes(each)) for each in split_rounds([raw], calls=calls)]


def user(*content: dict[str, Any]) -> bytes:
    return json.dumps({"role": "user", "content": content}).encode()


def result(ident: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": ident, "content": "so"}


def test_messages_without_data_of_the_gateway_are_sent_byte_for_byte() -> None:
    raws = [b'{"role":  "user", "content": "fairlead.2."}', b'{"content": [ {"type":"x"} ], "role": "assistant"}']
    assert [bytes(raw) for raw in split_rounds(raws, calls=True)] == raws


def test_unreadable_content_is_forwarded_unchanged() -> None:
    raws = [b'{"role":"assistant","content":7,"x":"fairlead."}', b'{"role":"user","content":7}']
    assert [bytes(raw) for raw in split_rounds(raws, calls=True)] == raws
    turn = StoredTurn("anthropic", [b"{}"], [user(result("ours"))])
    assert restore_turns([b"{}", raws[1]], {0: turn})[-1] == raws[1]


def test_only_thoughts_of_the_first_round_stay_in_place() -> None:
    content = [thinking_block(1), {"type": "text", "text": "fairlead.2."}, CALL]
    assert split_content(*content) == [{"role": "assistant", "content": content}]


def test_only_thoughts_of_the_last_round_stand_before_a_call() -> None:
    content = [thinking_block(1), TEXT, thinking_block(2), thinking_block(3), TEXT, CALL]
    assert split_content(*content) == [{"role": "assistant", "content": [plain(3), TEXT, TEXT, CALL]}]


def test_a_turn_that_is_over_loses_its_thoughts() -> None:
    assert split_content(thinking_block(1), thinking_block(2), TEXT) == [{"role": "assistant", "content": [TEXT]}]


def test_a_message_of_nothing_but_such_thoughts_is_left_out() -> None:
    assert split_content(thinking_block(1), thinking_block(2)) == []


def test_redacted_thoughts_are_marked_alike() -> None:
    redacted = {"type": "redacted_thinking", "data": "fairlead.2.D"}
    assert split_content(thinking_block(1), redacted, CALL) == [
        {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "D"}, CALL]}
    ]


def test_results_stand_first_in_the_one_next_message() -> None:
    turn = StoredTurn("anthropic", [b'{"role":"assistant","content":[]}'], [user(result("ours"))])
    raws = [b"{}", user(TEXT, result("t1")), user(TEXT)]
    _, answers, last = restore_turns(raws, {0: turn})
    assert json.loads(bytes(answers))["content"] == [result("ours"), result("t1"), TEXT]
    assert last == raws[2]


def test_results_have_a_message_of_their_own_where_no_user_follows() -> None:
    turn = StoredTurn("anthropic", [b"{}"], [user(result("ours"))])
    system = b'{"role":"system","content":"Be brief."}'
    _, results, last = restore_turns([b"{}", system], {0: turn})
    assert json.loads(bytes(results)) == {"role": "user", "content": [result("ours")]}
    assert last == system
    assert len(restore_turns([b"{}"], {0: turn})) == 2


def test_content_as_a_text_is_taken_like_a_list() -> None:
    turn = StoredTurn("anthropic", [b"{}"], [user(result("ours"))])
    answers = restore_turns([b"{}", b'{"role":"user","content":"Go on"}'], {0: turn})[1]
    assert json.loads(bytes(answers))["content"] == [result("ours"), {"type": "text", "text": "Go on"}]


def test_a_turn_is_found_by_its_calls_and_without_one_by_its_last_marked_thought() -> None:
    called = json.dumps({"role": "assistant", "content": [thinking_block(2), CALL]}).encode()
    thought_only = json.dumps({"role": "assistant", "content": [thinking_block(1), thinking_block(2), TEXT]}).encode()
    neither = json.dumps({"role": "assistant", "content": [thinking_block(1), TEXT]}).encode()
    guessed = json.dumps({"role": "assistant", "content": [thinking_block(2, ""), TEXT]}).encode()
    turns = ANTHROPIC.answer_ranges([called, thought_only, neither, guessed, user(CALL)])
    assert [(turn.start, turn.calls[0].id) for turn in turns] == [(0, "t1"), (1, RANDOM)]


def test_a_whole_answer_and_a_stream_name_the_same_thought() -> None:
    first, second = (
        AnthropicAnswer(json.dumps({"content": [plain(number), TEXT], "stop_reason": "end_turn"}).encode())
        for number in (1, 2)
    )
    named = second.turn_key([first])
    assert named is not None
    assert named.id == second.mark
    assert first.turn_key([]) is None
