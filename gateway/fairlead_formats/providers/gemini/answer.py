"""Whole answers of Gemini's generateContent: the provider's answer of each round, and the client's one answer.

Pure module. A round is one request to the model; the gateway runs tools between rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from fairlead_formats.messages.call import truncates
from fairlead_formats.providers.gemini.carried_ids import visible_parts
from fairlead_formats.providers.gemini.parts import ROUND_SEPARATOR, ContentPart, content_of, first_call, unwrap
from fairlead_formats.providers.gemini.response import GeminiResponse, is_malformed_call, message_of
from fairlead_formats.wire.protocol import BadAnswer, CallKey, InnerCall, LoopResult, WireAnswer


class GeminiAnswer:
    """The provider's answer in one round."""

    def __init__(self, body: bytes) -> None:
        """Raises BadAnswer."""
        try:
            self._response = GeminiResponse(body)
            earlier_ids: set[str] = set()
            self.parts = [part.add_call_id(earlier_ids) for part in self._response.parts]
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadAnswer(f"the provider's answer is not a response of generateContent: {error}") from error
        if not {"candidates", "promptFeedback", "usageMetadata"} & set(self._response.members):
            raise BadAnswer("the provider's answer has neither candidates nor promptFeedback")

    @property
    def message(self) -> dict[str, Any]:
        return message_of(self.parts, self._response.finish_reason)

    @property
    def usage(self) -> Mapping[str, Any]:
        return self._response.usage

    @property
    def request_messages(self) -> list[bytes]:
        return [content_of([part.raw for part in self.parts])]

    def unwrap(self, calls: Mapping[str, InnerCall]) -> None:
        self.parts = [unwrap(part, calls) for part in self.parts]

    def turn_key(self, earlier_answers: Sequence[WireAnswer]) -> CallKey | None:
        return None if truncates(self._response.finish_reason) else first_call(self.parts)

    @property
    def malformed_call(self) -> bool:
        return is_malformed_call(self._response.finish_reason, self.parts)

    @property
    def head(self) -> dict[str, Raw]:
        """Members that identify the answer for clients."""
        return self._response.head

    def write(self, loop: LoopResult) -> bytes:
        """The client's answer, with the head of the first round and the parts of all rounds. Calls that the gateway
        ran are left out, because the API has no way to show them.
        """
        if loop.client_tools is None:  # the gateway runs no calls, so there is only this round
            return self._response.with_extra_members(loop.extra_members)
        rounds = [round_answer for round_answer in loop.earlier_answers if isinstance(round_answer, GeminiAnswer)]
        parts: list[ContentPart] = []
        for round_answer in (*rounds, self):
            parts += join_rounds(parts, visible_parts(round_answer.parts, loop.client_tools))
        head = rounds[0].head if rounds else {}
        return self._response.write([part.raw for part in parts], loop.usage, head, loop.extra_members)


def join_rounds(earlier_parts: Sequence[ContentPart], parts: Sequence[ContentPart]) -> list[ContentPart]:
    """Parts of a later round, with an empty line before its first text if `earlier_parts` has text."""
    if not any(part.text for part in earlier_parts):
        return list(parts)
    first_text = next((index for index, part in enumerate(parts) if part.text), None)
    return (
        list(parts) if first_text is None else [*parts[:first_text], ContentPart(ROUND_SEPARATOR), *parts[first_text:]]
    )
