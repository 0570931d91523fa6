"""Responses of one session: one at a time in the conversation, and some beside it."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec

from fairlead_speech.cascaded.config import MOST_BYTES, BadEvent, chat_choice, chat_tools
from fairlead_speech.cascaded.conversation import MOST_ITEMS, ConversationItem, messages, spoken_text
from fairlead_speech.cascaded.spoken_response import ResponsePlan, SpokenResponse
from fairlead_speech.cascaded.state import SessionState
from fairlead_speech.cascaded.transcription import TurnHearing
from fairlead_speech.realtime.events import Event, members, text

MOST_BESIDE: Final = 4
"""Responses out of the conversation at a time."""
MOST_METADATA: Final = 16
_OWN: Final = ("instructions", "tools", "input")


class Responses:
    """Makes the responses of one session. `aclose` it."""

    def __init__(self, state: SessionState, hearing: TurnHearing) -> None:
        self._state = state
        self._hearing = hearing
        self._asking: asyncio.Task[None] | None = None
        """Waits until the user is heard."""
        self._asked: Event | None = None
        """Request of a client for the response that waits; None: the engine answers by itself."""
        self._response: SpokenResponse | None = None
        self._later = False
        """Whether the user has spoken while a response was in progress, and is to be answered behind it."""
        self._beside: set[SpokenResponse] = set()

    def answer(self) -> None:
        """Answer what the user says, once it is heard."""
        if self._response is not None:
            self._later = True  # of a client that is not interrupted
        elif self._asking is None:
            self._ask(None)

    def ask(self, asked: Event) -> None:
        """Make the response that a client asks for. Raises BadEvent."""
        metadata = asked.get("metadata")
        if metadata is not None and not (
            isinstance(metadata, dict)
            and len(metadata) <= MOST_METADATA
            and all(isinstance(each, str) and len(each) <= 512 for each in metadata.values())
        ):
            raise BadEvent("invalid_value", "metadata is an object of up to 16 short texts", "response.metadata")
        self._check(asked)
        if asked.get("conversation") == "none":
            if len(self._beside) >= MOST_BESIDE:
                raise BadEvent("rate_limit_exceeded", f"{MOST_BESIDE} responses are made beside already", None)
            response = SpokenResponse(self._state, metadata, beside=True)
            self._beside.add(response)
            response.start(self._plan(asked), self._beside.discard)
            return
        if self._response is not None or self._asking is not None:
            code = "conversation_already_has_active_response"
            raise BadEvent(code, "a response is in progress: wait for its response.done, or cancel it")
        self._ask(asked)

    async def interrupt(self, reason: str) -> bool:
        """End the response in progress, or the one that waits; whether there was one."""
        self._later = False
        asking, self._asking = self._asking, None
        if asking is not None:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            if self._asked is not None and self._response is None:
                details = {"type": "cancelled", "reason": reason}
                SpokenResponse(self._state, self._asked.get("metadata"), beside=False).empty("cancelled", details)
        response = self._response
        if response is not None:
            await response.cancel(reason)
        return asking is not None or response is not None

    async def aclose(self) -> None:
        """End all of them."""
        await self.interrupt("client_cancelled")
        for response in [*self._beside]:
            await response.cancel("client_cancelled")

    def _ask(self, asked: Event | None) -> None:
        self._asked = asked
        self._asking = asyncio.create_task(self._begin(asked), name="turn of a cascaded engine")

    async def _begin(self, asked: Event | None) -> None:
        state = self._state
        while True:
            await self._hearing.done()
            await state.queue.handled()  # by what was heard, the bridge may have chosen other tools
            if not self._hearing.busy:
                break  # else another turn has ended meanwhile, which belongs to this answer
        self._asking = None
        response = SpokenResponse(state, (asked or {}).get("metadata"), beside=False)
        failure = self._hearing.failure
        if asked is None and failure is not None:
            response.fail(failure.code, str(failure))
        elif asked is None and self._hearing.nothing and not self._owes():
            response.empty("completed")
        else:
            self._response = response
            response.start(self._plan(asked or {}), self._over)

    def _over(self, response: SpokenResponse) -> None:
        if self._response is response:
            self._response = None
        if self._later:
            self._later = False
            self._ask(None)

    def _owes(self) -> bool:
        """Whether something waits for an answer, though nothing was said just now."""
        said = [each.shown for each in self._state.conversation.items() if not each.filler]
        rest = [each for each in said if each.get("role") != "user" or spoken_text(each)]
        return bool(rest) and rest[-1].get("role") != "assistant"

    def _plan(self, asked: Event) -> ResponsePlan:
        """The plan of a response. Members of `asked` come before those of the session."""
        state, config = self._state, self._state.config.shown
        said = {
            name: config[name]
            for name in ("instructions", "tools", "tool_choice", "output_modalities", "max_output_tokens")
        }
        said |= {name: value for name, value in asked.items() if name in said}
        items = state.conversation.items()
        if isinstance(asked.get("input"), list):
            items = [self._input(each) for each in members(asked, "input")]
        body: dict[str, Any] = {
            "model": state.engine.provider.llm,
            "messages": messages(text(said, "instructions"), items),
            "stream": True,
        }
        tools = [tool for tool in members(said, "tools") if tool.get("type") == "function"]
        if tools:
            body |= {"tools": chat_tools(tools), "tool_choice": chat_choice(said["tool_choice"])}
        if isinstance(said["max_output_tokens"], int):
            body["max_completion_tokens"] = said["max_output_tokens"]
        beside = asked.get("conversation") == "none"
        phrase = "" if beside else state.filler.phrase(state.config.language)
        return ResponsePlan(
            state.engine.provider.llm,
            body,
            state.config.voice,
            state.config.speed,
            phrase,
            at_once=state.is_slow(),
            text_only=said["output_modalities"] == ["text"],
        )

    def _check(self, asked: Event) -> None:
        """Bound what a response has of its own. Raises BadEvent."""
        own = {name: asked[name] for name in _OWN if name in asked}
        if len(msgspec.json.encode(own)) > MOST_BYTES:
            message = f"instructions, tools and input of a response may have {MOST_BYTES >> 20} MiB"
            raise BadEvent("string_above_max_length", message, "response")
        given = members(asked, "input")
        named = [text(each, "id") for each in given if each.get("type") == "item_reference"]
        if len(given) > MOST_ITEMS or len(set(named)) < len(named):
            message = f"input has up to {MOST_ITEMS} items, and refers to each one once"
            raise BadEvent("invalid_value", message, "response.input")

    def _input(self, given: Event) -> ConversationItem:
        """An item of a response's own input: one of the conversation, or one that is given."""
        if given.get("type") == "item_reference":
            found = self._state.conversation.get(text(given, "id"))
            if found is not None:
                return found
        return ConversationItem(given, 0)
