"""Responses of one session: one at a time in the conversation, and some out of band."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec

from fairlead_speech.cascaded.config import MAX_CONFIG_BYTES, BadEvent, chat_choice, chat_tools
from fairlead_speech.cascaded.conversation import MAX_ITEMS, ConversationItem, chat_messages, spoken_text
from fairlead_speech.cascaded.spoken_response import ResponsePlan, SpokenResponse
from fairlead_speech.cascaded.state import SessionState
from fairlead_speech.cascaded.transcription import TurnTranscription
from fairlead_speech.realtime.events import Event, members, text

MAX_OUT_OF_BAND: Final = 4
"""Out-of-band responses at a time."""
MAX_METADATA: Final = 16
_OWN: Final = ("instructions", "tools", "input")


class Responses:
    """Creates the responses of one session. `aclose` it."""

    def __init__(self, state: SessionState, hearing: TurnTranscription) -> None:
        self._state = state
        self._transcription = hearing
        self._task: asyncio.Task[None] | None = None
        """Task that waits for transcripts, then starts the response."""
        self._request: Event | None = None
        """The client's request for the response that waits; None: the engine responds by itself."""
        self._response: SpokenResponse | None = None
        self._answers_later = False
        """Whether the user spoke during a response that was not interrupted, and is answered after it."""
        self._out_of_band: set[SpokenResponse] = set()

    def answer_speech(self) -> None:
        """Respond to speech, once it is transcribed."""
        if self._response is not None:
            self._answers_later = True  # speech does not interrupt this client's responses
        elif self._task is None:
            self._start(None)

    def create(self, request: Event) -> None:
        """Create the response that a client requests. Raises BadEvent."""
        metadata = request.get("metadata")
        if metadata is not None and not (
            isinstance(metadata, dict)
            and len(metadata) <= MAX_METADATA
            and all(isinstance(each, str) and len(each) <= 512 for each in metadata.values())
        ):
            raise BadEvent("invalid_value", "metadata is an object of up to 16 short texts", "response.metadata")
        self._check(request)
        if request.get("conversation") == "none":
            if len(self._out_of_band) >= MAX_OUT_OF_BAND:
                raise BadEvent("rate_limit_exceeded", f"{MAX_OUT_OF_BAND} responses are made beside already", None)
            response = SpokenResponse(self._state, metadata, out_of_band=True)
            self._out_of_band.add(response)
            response.start(self._plan(request), self._out_of_band.discard)
            return
        if self._response is not None or self._task is not None:
            code = "conversation_already_has_active_response"
            raise BadEvent(code, "a response is in progress: wait for its response.done, or cancel it")
        self._start(request)

    async def interrupt(self, reason: str) -> bool:
        """Cancel the response in progress, or the one that waits. True where there was one."""
        self._answers_later = False
        asking, self._task = self._task, None
        if asking is not None:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            if self._request is not None and self._response is None:
                details = {"type": "cancelled", "reason": reason}
                SpokenResponse(self._state, self._request.get("metadata"), out_of_band=False).finish_empty(
                    "cancelled", details
                )
        response = self._response
        if response is not None:
            await response.cancel(reason)
        return asking is not None or response is not None

    async def aclose(self) -> None:
        """Cancel all responses."""
        await self.interrupt("client_cancelled")
        for response in [*self._out_of_band]:
            await response.cancel("client_cancelled")

    def _start(self, request: Event | None) -> None:
        self._request = request
        self._task = asyncio.create_task(self._begin(request), name="turn of a cascaded engine")

    async def _begin(self, request: Event | None) -> None:
        state = self._state
        while True:
            await self._transcription.wait()
            await state.queue.wait_until_handled()  # the transcript may have changed the tier, and its tools
            if not self._transcription.busy:
                break  # else another turn ended meanwhile: it gets the same response
        self._task = None
        response = SpokenResponse(state, (request or {}).get("metadata"), out_of_band=False)
        failure = self._transcription.failure
        if request is None and failure is not None:
            response.fail(failure.code, str(failure))
        elif request is None and self._transcription.empty and not self._unanswered():
            response.finish_empty("completed")
        else:
            self._response = response
            response.start(self._plan(request or {}), self._on_done)

    def _on_done(self, response: SpokenResponse) -> None:
        if self._response is response:
            self._response = None
        if self._answers_later:
            self._answers_later = False
            self._start(None)

    def _unanswered(self) -> bool:
        """Whether the last item waits for an answer, though the last turn was silent."""
        visible = [each.wire for each in self._state.conversation.items() if not each.filler]
        rest = [each for each in visible if each.get("role") != "user" or spoken_text(each)]
        return bool(rest) and rest[-1].get("role") != "assistant"

    def _plan(self, request: Event) -> ResponsePlan:
        """Plan a response. Members of `request` override those of the session."""
        state, config = self._state, self._state.config.session
        merged = {
            name: config[name]
            for name in ("instructions", "tools", "tool_choice", "output_modalities", "max_output_tokens")
        }
        merged |= {name: value for name, value in request.items() if name in merged}
        items = state.conversation.items()
        if isinstance(request.get("input"), list):
            items = [self._input_item(each) for each in members(request, "input")]
        body: dict[str, Any] = {
            "model": state.engine.provider.llm,
            "messages": chat_messages(text(merged, "instructions"), items),
            "stream": True,
        }
        tools = [tool for tool in members(merged, "tools") if tool.get("type") == "function"]
        if tools:
            body |= {"tools": chat_tools(tools), "tool_choice": chat_choice(merged["tool_choice"])}
        if isinstance(merged["max_output_tokens"], int):
            body["max_completion_tokens"] = merged["max_output_tokens"]
        out_of_band = request.get("conversation") == "none"
        phrase = "" if out_of_band else state.filler.phrase(state.config.language)
        return ResponsePlan(
            state.engine.provider.llm,
            body,
            state.config.voice,
            state.config.speed,
            phrase,
            at_once=state.is_slow_tier(),
            text_only=merged["output_modalities"] == ["text"],
        )

    def _check(self, request: Event) -> None:
        """Check the sizes of a request. Raises BadEvent."""
        own = {name: request[name] for name in _OWN if name in request}
        if len(msgspec.json.encode(own)) > MAX_CONFIG_BYTES:
            message = f"instructions, tools and input of a response may have {MAX_CONFIG_BYTES >> 20} MiB"
            raise BadEvent("string_above_max_length", message, "response")
        given = members(request, "input")
        named = [text(each, "id") for each in given if each.get("type") == "item_reference"]
        if len(given) > MAX_ITEMS or len(set(named)) < len(named):
            message = f"input has up to {MAX_ITEMS} items, and refers to each one once"
            raise BadEvent("invalid_value", message, "response.input")

    def _input_item(self, part: Event) -> ConversationItem:
        """Item of a request's `input`: one that it refers to, or one that it holds."""
        if part.get("type") == "item_reference":
            item = self._state.conversation.get(text(part, "id"))
            if item is not None:
                return item
        return ConversationItem(part, 0)
