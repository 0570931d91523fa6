"""Responses of one session with a cascaded engine: one at a time in the conversation, and a few outside of it in
parallel (`conversation: none`, called out of band).
"""

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
"""Maximum number of out-of-band responses in progress."""
MAX_METADATA: Final = 16
_LARGE_MEMBERS: Final = ("instructions", "tools", "input")


class Responses:
    """Creates and cancels the responses of one session. Its owner calls `aclose` at the end."""

    def __init__(self, state: SessionState, transcription: TurnTranscription) -> None:
        self._state = state
        self._transcription = transcription
        self._waiting_task: asyncio.Task[None] | None = None
        """Task that waits for transcripts and then starts the response."""
        self._waiting_request: Event | None = None
        """The client's request for the waiting response; None if the engine responds to speech by itself."""
        self._response: SpokenResponse | None = None
        self._has_unanswered_speech = False
        """Whether the user spoke during a response that speech does not interrupt. A further response then answers the
        speech.
        """
        self._out_of_band: set[SpokenResponse] = set()

    def answer_speech(self) -> None:
        """Respond to speech as soon as it is transcribed."""
        if self._response is not None:
            self._has_unanswered_speech = True  # by the client's settings, speech does not interrupt
        elif self._waiting_task is None:
            self._start(None)

    def create(self, request: Event) -> None:
        """Create the response that a client requests. Raises BadEvent."""
        metadata = request.get("metadata")
        if metadata is not None and not (
            isinstance(metadata, dict)
            and len(metadata) <= MAX_METADATA
            and all(isinstance(value, str) and len(value) <= 512 for value in metadata.values())
        ):
            message = f"metadata must be an object of at most {MAX_METADATA} strings of at most 512 characters"
            raise BadEvent("invalid_value", message, "response.metadata")
        self._check(request)
        if request.get("conversation") == "none":
            if len(self._out_of_band) >= MAX_OUT_OF_BAND:
                raise BadEvent(
                    "rate_limit_exceeded",
                    f"{MAX_OUT_OF_BAND} out-of-band responses are in progress, the limit of a session: wait "
                    "for one to end",
                    None,
                )
            response = SpokenResponse(self._state, metadata, out_of_band=True)
            self._out_of_band.add(response)
            response.start(self._plan(request), self._out_of_band.discard)
            return
        if self._response is not None or self._waiting_task is not None:
            code = "conversation_already_has_active_response"
            raise BadEvent(code, "a response is in progress: wait for its response.done, or cancel it")
        self._start(request)

    async def interrupt(self, reason: str) -> bool:
        """Cancel the response that is in progress or waits for transcripts. Returns False if there is none."""
        self._has_unanswered_speech = False
        waiting_task, self._waiting_task = self._waiting_task, None
        if waiting_task is not None:
            waiting_task.cancel()
            await asyncio.gather(waiting_task, return_exceptions=True)
            if self._waiting_request is not None and self._response is None:
                details = {"type": "cancelled", "reason": reason}
                SpokenResponse(self._state, self._waiting_request.get("metadata"), out_of_band=False).finish_empty(
                    "cancelled", details
                )
        response = self._response
        if response is not None:
            await response.cancel(reason)
        return waiting_task is not None or response is not None

    async def aclose(self) -> None:
        """Cancel all responses."""
        await self.interrupt("client_cancelled")
        for response in [*self._out_of_band]:
            await response.cancel("client_cancelled")

    def _start(self, request: Event | None) -> None:
        self._waiting_request = request
        self._waiting_task = asyncio.create_task(
            self._begin_after_transcripts(request), name="turn of a cascaded engine"
        )

    async def _begin_after_transcripts(self, request: Event | None) -> None:
        state = self._state
        while True:
            await self._transcription.wait()
            # the bridge may have changed tier and tools after it has read the transcript
            await state.queue.wait_until_handled()
            if not self._transcription.busy:
                break  # if not, another turn has ended meanwhile, and this response answers both turns
        self._waiting_task = None
        response = SpokenResponse(state, (request or {}).get("metadata"), out_of_band=False)
        failure = self._transcription.failure
        if request is None and failure is not None:
            response.fail(failure.code, str(failure))
        elif request is None and self._transcription.empty and not self._needs_answer():
            response.finish_empty("completed")
        else:
            self._response = response
            response.start(self._plan(request or {}), self._on_done)

    def _on_done(self, response: SpokenResponse) -> None:
        if self._response is response:
            self._response = None
        if self._has_unanswered_speech:
            self._has_unanswered_speech = False
            self._start(None)

    def _needs_answer(self) -> bool:
        """Whether the conversation ends with an item that needs an answer. User turns without words and fillers are
        ignored.
        """
        wire_items = [item.wire for item in self._state.conversation.items() if not item.filler]
        items_with_text = [item for item in wire_items if item.get("role") != "user" or spoken_text(item)]
        return bool(items_with_text) and items_with_text[-1].get("role") != "assistant"

    def _plan(self, request: Event) -> ResponsePlan:
        """Plan a response. Members of `request` override the session's configuration."""
        state, config = self._state, self._state.config.session
        settings = {
            name: config[name]
            for name in ("instructions", "tools", "tool_choice", "output_modalities", "max_output_tokens")
        }
        settings |= {name: value for name, value in request.items() if name in settings}
        items = state.conversation.items()
        if isinstance(request.get("input"), list):
            items = [self._input_item(element) for element in members(request, "input")]
        body: dict[str, Any] = {
            "model": state.engine.provider.llm,
            "messages": chat_messages(text(settings, "instructions"), items),
            "stream": True,
        }
        tools = [tool for tool in members(settings, "tools") if tool.get("type") == "function"]
        if tools:
            body |= {"tools": chat_tools(tools), "tool_choice": chat_choice(settings["tool_choice"])}
        if isinstance(settings["max_output_tokens"], int):
            body["max_completion_tokens"] = settings["max_output_tokens"]
        out_of_band = request.get("conversation") == "none"
        filler_phrase = "" if out_of_band else state.filler.phrase(state.config.language)
        return ResponsePlan(
            state.engine.provider.llm,
            body,
            state.config.voice,
            state.config.speed,
            filler_phrase,
            at_once=state.is_slow_tier(),
            text_only=settings["output_modalities"] == ["text"],
        )

    def _check(self, request: Event) -> None:
        """Check the sizes of a request. Raises BadEvent."""
        large_members = {name: request[name] for name in _LARGE_MEMBERS if name in request}
        if len(msgspec.json.encode(large_members)) > MAX_CONFIG_BYTES:
            limit = f"at most {MAX_CONFIG_BYTES >> 20} MiB"
            message = f"instructions, tools and input of a response may have {limit} together"
            raise BadEvent("string_above_max_length", message, "response")
        input_items = members(request, "input")
        referenced_ids = [text(item, "id") for item in input_items if item.get("type") == "item_reference"]
        if len(input_items) > MAX_ITEMS or len(set(referenced_ids)) < len(referenced_ids):
            message = f"input may have at most {MAX_ITEMS} items, and may reference an item only once"
            raise BadEvent("invalid_value", message, "response.input")

    def _input_item(self, element: Event) -> ConversationItem:
        """Item for one element of a request's `input`: the referenced item, or the element itself."""
        if element.get("type") == "item_reference":
            item = self._state.conversation.get(text(element, "id"))
            if item is not None:
                return item
        return ConversationItem(element, 0)
