"""One response of a cascaded engine: the model's answer as it comes, sentence by sentence into speech."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import msgspec

from fairlead_formats.wire.errors import LlmError
from fairlead_speech.bounds import SpeechBounds
from fairlead_speech.cascaded.backends import BackendFailed, SpeechBackends
from fairlead_speech.cascaded.call_ids import CallIds
from fairlead_speech.cascaded.chat_model import ChatModel, SpokenAnswer
from fairlead_speech.cascaded.conversation import ConversationItem, TooLargeItem
from fairlead_speech.cascaded.fillers import FillerAudio
from fairlead_speech.cascaded.sentences import SentenceCutter, speakable
from fairlead_speech.cascaded.spoken_item import SpokenItem
from fairlead_speech.cascaded.spoken_usage import response_usage
from fairlead_speech.realtime_events import Event

_INCOMPLETE: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Reasons of responses that are incomplete, by the finish reason of the model's answer."""
log = logging.getLogger(__name__)


class ResponseHost(Protocol):
    """Session that a response is of."""

    bounds: SpeechBounds
    backends: SpeechBackends
    model: ChatModel
    fillers: FillerAudio
    call_ids: CallIds

    def ident(self, prefix: str) -> str:
        """A new id."""
        ...

    def emit(self, kind: str, **members: Any) -> None:
        """Send an event."""
        ...

    async def emit_when_room(self, kind: str, **members: Any) -> None:
        """Send an event once few bytes wait."""
        ...

    def add(self, shown: Event, *, filler: bool = False) -> tuple[ConversationItem, str | None]:
        """Append an item to the conversation; also the id of the one before."""
        ...

    def update(self, item: ConversationItem, shown: Event) -> None:
        """Have an item be another one now."""
        ...

    def heard(self, *, filler: bool) -> None:
        """The first audio of a phrase, or of the answer, is there."""
        ...


class ResponsePlan(msgspec.Struct):
    """Parts of a response that are settled as it begins."""

    wanted: str
    """Model or route."""
    body: dict[str, Any]
    """Request of Chat Completions."""
    voice: str
    speed: float
    phrase: str
    """Said in front of calls, and at once where the answer takes its time; empty: nothing."""
    at_once: bool
    text_only: bool


class SpokenResponse:
    """A response in progress."""

    def __init__(self, host: ResponseHost, metadata: object, *, beside: bool) -> None:
        """`beside`: out of the conversation."""
        self._host = host
        self.beside = beside
        self.output: dict[int, Event] = {}
        self.id = host.ident("resp")
        self._metadata = metadata
        self._items = 0
        self._answering = False
        self._answer = SpokenAnswer()
        self._taken: Mapping[str, Any] | None = None
        """Request that the model has; None: none, or it was refused."""
        self._spoken: list[SpokenItem] = []
        self._pieces: asyncio.Queue[tuple[SpokenItem, str] | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._over: Callable[[SpokenResponse], None] = lambda _: None
        self._ended = False
        self.ident = host.ident
        self.emit = host.emit
        self.emit_when_room = host.emit_when_room
        self.update = host.update

    def start(self, plan: ResponsePlan, over: Callable[[SpokenResponse], None]) -> None:
        """Begin; `over` is called before the last event."""
        self._plan = plan
        self._over = over
        self.emit("response.created", response=self._shown("in_progress", None))
        self._task = asyncio.create_task(self._run(), name="response of a cascaded engine")

    async def cancel(self, reason: str) -> None:
        """End it early."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._end("cancelled", {"type": "cancelled", "reason": reason})

    def fail(self, code: str, message: str) -> None:
        """End a response that never began to be made."""
        self.emit("response.created", response=self._shown("in_progress", None))
        self._end("failed", failure(code, message))

    def empty(self, status: str, details: Event | None = None) -> None:
        """A response that says nothing."""
        self.emit("response.created", response=self._shown("in_progress", None))
        self._end(status, details)

    # Of its items

    def place(self) -> dict[str, Any]:
        """`response_id` and `output_index` of a new item."""
        self._items += 1
        return {"response_id": self.id, "output_index": self._items - 1}

    def add(self, shown: Event, *, filler: bool = False) -> tuple[ConversationItem, str | None]:
        """Append an item to the conversation, unless it is beside that."""
        return (ConversationItem(shown, 0), None) if self.beside else self._host.add(shown, filler=filler)

    # Inside

    async def _run(self) -> None:
        speaking = asyncio.create_task(self._speak(), name="speech of a cascaded engine")
        seconds = self._host.bounds.response_seconds
        try:
            async with asyncio.timeout(seconds):
                await self._think(speaking)
                self._pieces.put_nowait(None)
                await speaking
        except TimeoutError:
            message = f"the answer was not over within {seconds / 60:.0f} minutes"
            self._end("failed", failure("response_timeout", message))
        except BackendFailed as error:
            self._end("failed", failure(error.code, str(error)))
        except LlmError as error:
            if not self._answering:
                self._taken = None
            self._end("failed", failure(error.code, f"the model: {error}"))
        except TooLargeItem as error:
            self._end("failed", failure("too_large", str(error)))
        except Exception:
            log.exception("A response of a cascaded engine failed")
            self._end("failed", failure("internal_error", "the gateway failed; its log says why"))
        else:
            reason = _INCOMPLETE.get(self._answer.finish_reason)
            details = None if reason is None else {"type": "incomplete", "reason": reason}
            self._end("completed" if reason is None else "incomplete", details)
        finally:
            speaking.cancel()
            await asyncio.gather(speaking, return_exceptions=True)

    async def _think(self, speaking: asyncio.Task[None]) -> None:
        """Read the model's answer to its end, and have it spoken; then its calls."""
        plan, cutter, message = self._plan, SentenceCutter(), None
        if plan.at_once:
            self._fill()
        self._taken = plan.body
        async with contextlib.aclosing(self._host.model.stream(plan.wanted, plan.body)) as stream:
            async for piece in stream:
                self._answering = True
                text = self._answer.feed(piece)
                if message is None:
                    text = text.lstrip()  # some models write a line in front of a call: that says nothing
                if text and message is None:
                    message = self._opened(filler=False)
                if self._answer.calls and message is None:
                    self._fill()
                for sentence in cutter.add(text):
                    assert message is not None, "a sentence has come as text"
                    self._pieces.put_nowait((message, sentence))
                if speaking.done():
                    speaking.result()
        if not self._answer.ended:
            raise BackendFailed("llm_failed", "the model's answer broke off")
        rest = cutter.rest()
        if rest and message is not None:
            self._pieces.put_nowait((message, rest))
        if self._answer.finish_reason in _INCOMPLETE:  # its calls may lack their end
            return
        for ident, call in zip(self._host.call_ids.of(self._answer.calls), self._answer.calls, strict=True):
            self._call(ident, call.name, call.arguments)

    def _fill(self) -> None:
        """Have the phrase said, once."""
        plan = self._plan
        if plan.phrase and not plan.text_only:
            self._pieces.put_nowait((self._opened(filler=True), plan.phrase))
            plan.phrase = ""

    def _opened(self, *, filler: bool) -> SpokenItem:
        self._spoken.append(SpokenItem(self, filler=filler, text_only=self._plan.text_only))
        return self._spoken[-1]

    async def _speak(self) -> None:
        """Say the pieces in their order. Raises BackendFailed."""
        last: SpokenItem | None = None
        while (piece := await self._pieces.get()) is not None:
            item, text = piece
            if last is not None and last is not item:
                last.close()
            last = item
            await self._say(item, text)
        if last is not None:
            last.close()

    async def _say(self, item: SpokenItem, text: str) -> None:
        plan, host, filler = self._plan, self._host, item.item.filler
        if plan.text_only or not speakable(text):
            await item.write(text)
            return
        kept = host.fillers.kept(text, plan.voice, plan.speed) if filler else None
        if kept is not None:
            await item.write(text)
            host.heard(filler=True)
            await item.sound(kept)
            return
        whole, began = bytearray(), False
        async with contextlib.aclosing(host.backends.spoken(text.strip(), plan.voice, plan.speed)) as sound:
            async for audio in sound:
                if not began:
                    began = True
                    await item.write(text)
                    host.heard(filler=filler)
                if filler:
                    whole += audio
                await item.sound(audio)
        if not began and not filler:
            raise BackendFailed("tts_failed", "text to speech answered without audio")
        if filler:
            host.fillers.keep(text, plan.voice, plan.speed, bytes(whole))

    def _call(self, call: str, name: str, arguments: str) -> None:
        item: Event = {
            "id": self.ident("item"),
            "object": "realtime.item",
            "type": "function_call",
            "call_id": call,
            "name": name,
        }
        place = self.place()
        within = {**place, "item_id": item["id"], "call_id": call}
        started = {**item, "status": "in_progress", "arguments": ""}
        whole = {**item, "status": "completed", "arguments": arguments or "{}"}
        self.emit("response.output_item.added", **place, item=started)
        _, before = self.add(whole)
        if not self.beside:
            self.emit("conversation.item.added", previous_item_id=before, item=started)
        self.emit("response.function_call_arguments.delta", **within, delta=whole["arguments"])
        self.emit("response.function_call_arguments.done", **within, name=name, arguments=whole["arguments"])
        self.output[place["output_index"]] = whole
        self.emit("response.output_item.done", **place, item=whole)
        if not self.beside:
            self.emit("conversation.item.done", previous_item_id=before, item=whole)

    def _end(self, status: str, details: Event | None) -> None:
        if self._ended:
            return
        self._ended = True
        for item in self._spoken:
            item.close("incomplete")  # unless it is closed
        self._over(self)
        usage = response_usage(self._answer.usage, self._taken, self._answer.written)
        self.emit("response.done", response={**self._shown(status, details), "usage": usage})

    def _shown(self, status: str, details: Event | None) -> Event:
        outputs = [self.output[place] for place in sorted(self.output)]
        return {
            "object": "realtime.response",
            "id": self.id,
            "status": status,
            "status_details": details,
            "output": outputs,
            "conversation_id": None if self.beside else "conv_cascaded",
            "metadata": self._metadata,
            "usage": None,
        }


def failure(code: str, message: str) -> Event:
    """`status_details` of a response that failed."""
    return {"type": "failed", "error": {"type": "server_error", "code": code, "message": message[:1024]}}
