"""The API accepts the request after a turn, whatever rounds the turn had and whatever the client kept of it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest

from fairlead_formats.providers.anthropic.answer import AnthropicAnswer
from fairlead_formats.providers.anthropic.fake import AnthropicApi
from fairlead_formats.providers.anthropic.fake_rules import fault
from fairlead_formats.providers.anthropic.format import ANTHROPIC
from fairlead_formats.providers.anthropic.history import restore_turns, split_rounds
from fairlead_formats.providers.anthropic.stream import AnthropicStream
from fairlead_formats.registry import message_format
from fairlead_formats.scripted_turns import ScriptedCall, ScriptedTurn
from fairlead_formats.wire.protocol import FinishedCall, LoopResult, StoredTurn
from fairlead_tools.validation.schema_draft import draft_error

GATEWAY_CALL = ScriptedCall("ours", {"n": 1})
CLIENT_CALL = ScriptedCall("theirs")
THINKS = {"type": "enabled", "budget_tokens": 1024}
LAST: dict[str, Sequence[ScriptedCall]] = {
    "over": [],
    "the caller's": [CLIENT_CALL],
    "mixed": [GATEWAY_CALL, CLIENT_CALL, GATEWAY_CALL],
    "two of the caller's": [CLIENT_CALL, CLIENT_CALL],
}
TEXTS_AND_THOUGHTS = [*itertools.product(["", "\n", "Text."], [(), ("Hm.",), ("Hm.", "Oh.")])]


class Turn:
    """A turn of several rounds, as the gateway has it after the last round."""

    def __init__(self, rounds: Sequence[ScriptedTurn], *, shows: bool) -> None:
        self.answers = [AnthropicAnswer(AnthropicApi().whole_body(each, n, {})) for n, each in enumerate(rounds, 1)]
        self.stream = AnthropicStream({"theirs"})
        for each in self.answers:
            each.mark = self.stream.mark
        streamed = b""
        self.messages: list[bytes] = []
        ran: list[FinishedCall] = []
        for number, (turn, answer) in enumerate(zip(rounds, self.answers, strict=True), 1):
            if number > 1:
                self.stream.next_round()
            events = AnthropicApi().events(turn, number, {})
            streamed += b"".join(self.stream.feed(event.encode()) for event in events) + self.stream.end_round()
            called = message_format(ANTHROPIC.name).parse_calls(answer.message)
            ours = [call for call in called if call.wire_name == "ours"]
            result = {"content": [{"type": "text", "text": "done"}]}
            finished = [FinishedCall(call.id, call.wire_name, b'{"n": 1}', result) for call in ours]
            written = message_format(ANTHROPIC.name).write_results(ours, [result] * len(ours)).messages
            self.results = [json.dumps(each).encode() for each in written]
            self.history = [*self.messages, *answer.request_messages]
            self.messages = [*self.history, *self.results]
            ran += finished
            streamed += self.stream.show_results(finished) if shows else b""
        last = self.answers[-1]
        before = self.answers[:-1]
        self.thought = last.turn_key(before)
        self.content = json.loads(last.write(LoopResult(before, {}, {"theirs"}, ran if shows else ())))["content"]
        self.streamed = [json.loads(line[6:]) for line in streamed.decode().split("\n") if line.startswith("data: ")]

    @property
    def stored(self) -> StoredTurn | None:
        """The turn as the loop stores it; None if the loop would not store it."""
        if not self.results and (self.thought is None or len(self.answers) == 1):
            return None
        return StoredTurn(ANTHROPIC.name, self.history, self.results)

    def follow_up(self, *, stored: bool, thoughts: bool) -> list[bytes]:
        """Messages that the provider gets for the client's next request. `stored`: with the stored turn restored.
        `thoughts`: whether the client sends the reasoning back."""
        kinds = () if thoughts else ("thinking",)
        content = [block for block in self.content if block["type"] not in kinds]
        # the API refuses empty text, so clients drop it
        content = [block for block in content if block["type"] != "text" or block["text"].strip()]
        results = [
            {"type": "tool_result", "tool_use_id": block["id"]} for block in content if block["type"] == "tool_use"
        ]
        history = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": content}]
        request_messages: list[Any] = [*(history if content else history[:1])]
        request_messages.append({"role": "user", "content": [*results, {"type": "text", "text": "And?"}]})
        messages: list[Any] = [json.dumps(each).encode() for each in request_messages]
        if stored and self.stored is not None:
            messages = restore_turns(messages, {turn.start: self.stored for turn in ANTHROPIC.answer_ranges(messages)})
        return [bytes(each) for each in split_rounds(messages, calls=True)]


@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize("shows", [False, True])
def test_the_follow_up_of_any_turn_is_taken(last: str, shows: bool) -> None:
    tried = 0
    # three rounds: every pair of texts for two of them, and one text for the third
    triples = [
        (*pair, TEXTS_AND_THOUGHTS[sum(map(TEXTS_AND_THOUGHTS.index, pair)) % len(TEXTS_AND_THOUGHTS)])
        for pair in itertools.product(TEXTS_AND_THOUGHTS, repeat=2)
    ]
    for count, texts in enumerate(
        ([(text,) for text in TEXTS_AND_THOUGHTS], itertools.product(TEXTS_AND_THOUGHTS, repeat=2), triples), 1
    ):
        for spoken in texts:
            calls = [*[[GATEWAY_CALL]] * (count - 1), LAST[last]]
            rounds = [ScriptedTurn(s, c, thoughts=t) for (s, t), c in zip(spoken, calls, strict=True)]
            turn = Turn(rounds, shows=shows)
            for stored, thoughts in itertools.product([False, True], repeat=2):
                sent = turn.follow_up(stored=stored, thoughts=thoughts)
                body: dict[str, Any] = {"max_tokens": 2048, "messages": [json.loads(each) for each in sent]}
                if thoughts and all(t for _, t in spoken):
                    body["thinking"] = THINKS
                assert fault(body, {"anthropic-version": "1"}, draft_error) is None, (rounds, stored, thoughts, body)
                tried += 1
    assert tried == 4 * (9 + 81 + 81)


@pytest.mark.parametrize("last", LAST)
def test_a_turn_that_is_kept_comes_back_as_it_was(last: str) -> None:
    for spoken in itertools.product(TEXTS_AND_THOUGHTS, repeat=2):
        calls = [[GATEWAY_CALL], LAST[last]]
        rounds = [ScriptedTurn(s, c, thoughts=t) for (s, t), c in zip(spoken, calls, strict=True)]
        turn = Turn(rounds, shows=False)
        if turn.stored is None:
            continue
        sent = turn.follow_up(stored=True, thoughts=True)
        assert sent[1 : 1 + len(turn.history)] == turn.history


@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize("shows", [False, True])
def test_blocks_of_a_stream_are_those_of_the_whole_answer(last: str, shows: bool) -> None:
    for spoken in itertools.product(TEXTS_AND_THOUGHTS, repeat=2):
        calls = [[GATEWAY_CALL], LAST[last]]
        rounds = [ScriptedTurn(s, c, thoughts=t) for (s, t), c in zip(spoken, calls, strict=True)]
        turn = Turn(rounds, shows=shows)
        begun = [each["content_block"] for each in turn.streamed if each["type"] == "content_block_start"]
        assert [block["type"] for block in begun] == [block["type"] for block in turn.content]
        signatures = [each["delta"].get("signature") for each in turn.streamed if each["type"] == "content_block_delta"]
        assert [each for each in signatures if each] == [b["signature"] for b in turn.content if "signature" in b]
        assert turn.stream.turn_key == turn.thought
