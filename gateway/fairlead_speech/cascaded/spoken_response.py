"""Response of a cascaded engine: speaks the model's streamed answer sentence by sentence, and sends the response's
items and usage as events.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import msgspec

from fairlead_formats.wire.errors import LlmError
from fairlead_models.request_record import TokenUsage, estimate_tokens, token_usage
from fairlead_speech.cascaded.backends import BackendFailed, SpeechBackends
from fairlead_speech.cascaded.chat_model import CallIds, ChatModel, SpokenAnswer
from fairlead_speech.cascaded.conversation import ConversationItem, SpokenPiece, TooLargeItem
from fairlead_speech.cascaded.fillers import FillerAudio
from fairlead_speech.cascaded.sentences import SentenceCutter, speakable
from fairlead_speech.realtime.events import Event
from fairlead_speech.session import SpeechBounds

_INCOMPLETE_REASONS: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Reasons of incomplete responses, by `finish_reason` of the model's answer."""
log = logging.getLogger(__name__)
CHUNK_BYTES: Final = 9600
"""Bytes of audio in one event: 200 ms."""
_CHARACTERS_PER_TOKEN: Final = 4
"""Characters of an answer that count as one token when the model states no usage."""


class ResponseHost(Protocol):
    """Interface of a session to its responses."""

    bounds: SpeechBounds
    backends: SpeechBackends
    model: ChatModel
    fillers: FillerAudio
    call_ids: CallIds

    def new_id(self, prefix: str) -> str:
        """Make an id with a prefix."""
        ...

    def emit(self, kind: str, **members: Any) -> None:
        """Send an event."""
        ...

    async def emit_when_room(self, kind: str, **members: Any) -> None:
        """Wait until the client's event queue has room for audio, then send an event."""
        ...

    def add(self, wire: Event, *, filler: bool = False) -> tuple[ConversationItem, str | None]:
        """Append an item to the conversation. Returns the item and the id of the previous item."""
        ...

    def update(self, item: ConversationItem, wire: Event) -> None:
        """Replace the wire form of an item."""
        ...

    def on_first_audio(self, *, filler: bool) -> None:
        """Record that the first audio of a filler phrase, or of the answer itself, is sent."""
        ...


class ResponsePlan(msgspec.Struct):
    """Plan of a response, decided before the response begins."""

    model: str
    """Name of a model or route."""
    body: dict[str, Any]
    """Request body in the format of Chat Completions."""
    voice: str
    speed: float
    phrase: str
    """Filler phrase that is spoken before tool calls, or at once in a slow tier; empty for no filler."""
    at_once: bool
    """Whether the filler is spoken at the start of the response."""
    text_only: bool
    """Whether the response has text and no audio."""


class SpokenResponse:
    """Response in progress of a cascaded engine."""

    def __init__(self, host: ResponseHost, metadata: object, *, out_of_band: bool) -> None:
        """`out_of_band`: whether the response is kept out of the conversation."""
        self._host = host
        self.out_of_band = out_of_band
        self.output: dict[int, Event] = {}
        self.id = host.new_id("resp")
        self._metadata = metadata
        self._output_count = 0
        """Number of output items of the response."""
        self._answer_began = False
        self._answer = SpokenAnswer()
        self._request: Mapping[str, Any] | None = None
        """Body of the request to the model, for an estimate of its tokens. None if no request was sent, or if the model
        refused it.
        """
        self._spoken_items: list[SpokenItem] = []
        self._pieces: asyncio.Queue[tuple[SpokenItem, str] | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._on_done: Callable[[SpokenResponse], None] = lambda _: None
        self._has_ended = False
        self.new_id = host.new_id
        self.emit = host.emit
        self.emit_when_room = host.emit_when_room
        self.update = host.update

    def start(self, plan: ResponsePlan, on_done: Callable[[SpokenResponse], None]) -> None:
        """Begin the response. `on_done` is called before the event `response.done`."""
        self._plan = plan
        self._on_done = on_done
        self.emit("response.created", response=self._response("in_progress", None))
        self._task = asyncio.create_task(self._run(), name="response of a cascaded engine")

    async def cancel(self, reason: str) -> None:
        """Cancel the response."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._end("cancelled", {"type": "cancelled", "reason": reason})

    def fail(self, code: str, message: str) -> None:
        """Send the events of a response that failed before it began."""
        self.emit("response.created", response=self._response("in_progress", None))
        self._end("failed", failure(code, message))

    def finish_empty(self, status: str, details: Event | None = None) -> None:
        """Send the events of a response without output."""
        self.emit("response.created", response=self._response("in_progress", None))
        self._end(status, details)

    # ItemHost

    def next_output(self) -> dict[str, Any]:
        """`response_id` and `output_index` of a new item."""
        self._output_count += 1
        return {"response_id": self.id, "output_index": self._output_count - 1}

    def add(self, wire: Event, *, filler: bool = False) -> tuple[ConversationItem, str | None]:
        """Append an item to the conversation, unless the response is out of band."""
        return (ConversationItem(wire, 0), None) if self.out_of_band else self._host.add(wire, filler=filler)

    # Internals

    async def _run(self) -> None:
        speaking = asyncio.create_task(self._speak(), name="speech of a cascaded engine")
        seconds = self._host.bounds.response_seconds
        try:
            async with asyncio.timeout(seconds):
                await self._read_answer(speaking)
                self._pieces.put_nowait(None)
                await speaking
        except TimeoutError:
            message = f"the model's answer took longer than {seconds / 60:.0f} minutes"
            self._end("failed", failure("response_timeout", message))
        except BackendFailed as error:
            self._end("failed", failure(error.code, str(error)))
        except LlmError as error:
            if not self._answer_began:
                self._request = None
            self._end("failed", failure(error.code, f"the model failed: {error}"))
        except TooLargeItem as error:
            self._end("failed", failure("too_large", str(error)))
        except Exception:
            log.exception("A response of a cascaded engine failed")
            self._end("failed", failure("internal_error", "the gateway failed; its log says why"))
        else:
            reason = _INCOMPLETE_REASONS.get(self._answer.finish_reason)
            details = None if reason is None else {"type": "incomplete", "reason": reason}
            self._end("completed" if reason is None else "incomplete", details)
        finally:
            speaking.cancel()
            await asyncio.gather(speaking, return_exceptions=True)

    async def _read_answer(self, speaking: asyncio.Task[None]) -> None:
        """Read the model's whole answer, and queue its text to be spoken. At the end, send events for its tool
        calls.
        """
        plan, cutter, message = self._plan, SentenceCutter(), None
        if plan.at_once:
            self._queue_filler()
        self._request = plan.body
        async with contextlib.aclosing(self._host.model.stream(plan.model, plan.body)) as stream:
            async for piece in stream:
                self._answer_began = True
                text = self._answer.feed(piece)
                if message is None:
                    text = text.lstrip()  # some models write an empty line before a call
                if text and message is None:
                    message = self._open_item(filler=False)
                if self._answer.calls and message is None:
                    self._queue_filler()
                for sentence in cutter.add(text):
                    assert message is not None, "a sentence is cut from text, which opens a message"
                    self._pieces.put_nowait((message, sentence))
                if speaking.done():
                    speaking.result()
        if not self._answer.ended:
            raise BackendFailed("llm_failed", "the stream of the model's answer ended early")
        remaining = cutter.take_rest()
        if remaining and message is not None:
            self._pieces.put_nowait((message, remaining))
        if self._answer.finish_reason in _INCOMPLETE_REASONS:  # the arguments of its calls may be cut off
            return
        for ident, call in zip(self._host.call_ids.assign(self._answer.calls), self._answer.calls, strict=True):
            self._emit_call(ident, call.name, call.arguments)

    def _queue_filler(self) -> None:
        """Queue the filler, unless the response has already queued it."""
        plan = self._plan
        if plan.phrase and not plan.text_only:
            self._pieces.put_nowait((self._open_item(filler=True), plan.phrase))
            plan.phrase = ""

    def _open_item(self, *, filler: bool) -> SpokenItem:
        self._spoken_items.append(SpokenItem(self, filler=filler, text_only=self._plan.text_only))
        return self._spoken_items[-1]

    async def _speak(self) -> None:
        """Speak the queued pieces of text in order. Raises BackendFailed."""
        current: SpokenItem | None = None
        while (piece := await self._pieces.get()) is not None:
            item, text = piece
            if current is not None and current is not item:
                current.close()
            current = item
            await self._speak_piece(item, text)
        if current is not None:
            current.close()

    async def _speak_piece(self, item: SpokenItem, text: str) -> None:
        plan, host, filler = self._plan, self._host, item.item.filler
        if plan.text_only or not speakable(text):
            await item.send_text(text)
            return
        cached_audio = host.fillers.audio(text, plan.voice, plan.speed) if filler else None
        if cached_audio is not None:
            await item.send_text(text)
            host.on_first_audio(filler=True)
            await item.send_audio(cached_audio)
            return
        filler_audio, has_audio = bytearray(), False
        async with contextlib.aclosing(host.backends.synthesize(text.strip(), plan.voice, plan.speed)) as speech:
            async for audio in speech:
                if not has_audio:
                    has_audio = True
                    await item.send_text(text)
                    host.on_first_audio(filler=filler)
                if filler:
                    filler_audio += audio
                await item.send_audio(audio)
        if not has_audio and not filler:
            raise BackendFailed("tts_failed", "the text-to-speech server answered without audio")
        if filler:
            host.fillers.add(text, plan.voice, plan.speed, bytes(filler_audio))

    def _emit_call(self, call: str, name: str, arguments: str) -> None:
        item: Event = {
            "id": self.new_id("item"),
            "object": "realtime.item",
            "type": "function_call",
            "call_id": call,
            "name": name,
        }
        position = self.next_output()
        call_position = {**position, "item_id": item["id"], "call_id": call}
        started_item = {**item, "status": "in_progress", "arguments": ""}
        completed_item = {**item, "status": "completed", "arguments": arguments or "{}"}
        self.emit("response.output_item.added", **position, item=started_item)
        _, previous_id = self.add(completed_item)
        if not self.out_of_band:
            self.emit("conversation.item.added", previous_item_id=previous_id, item=started_item)
        self.emit("response.function_call_arguments.delta", **call_position, delta=completed_item["arguments"])
        self.emit(
            "response.function_call_arguments.done", **call_position, name=name, arguments=completed_item["arguments"]
        )
        self.output[position["output_index"]] = completed_item
        self.emit("response.output_item.done", **position, item=completed_item)
        if not self.out_of_band:
            self.emit("conversation.item.done", previous_item_id=previous_id, item=completed_item)

    def _end(self, status: str, details: Event | None) -> None:
        if self._has_ended:
            return
        self._has_ended = True
        for item in self._spoken_items:
            item.close("incomplete")  # no-op for closed items
        self._on_done(self)
        usage = response_usage(self._answer.usage, self._request, self._answer.size)
        self.emit("response.done", response={**self._response(status, details), "usage": usage})

    def _response(self, status: str, details: Event | None) -> Event:
        outputs = [self.output[index] for index in sorted(self.output)]
        return {
            "object": "realtime.response",
            "id": self.id,
            "status": status,
            "status_details": details,
            "output": outputs,
            "conversation_id": None if self.out_of_band else "conv_cascaded",
            "metadata": self._metadata,
            "usage": None,
        }


def failure(code: str, message: str) -> Event:
    """`status_details` of a response that failed."""
    return {"type": "failed", "error": {"type": "server_error", "code": code, "message": message[:1024]}}


class ItemHost(Protocol):
    """Interface of a response, and of its session, to an item of the response."""

    out_of_band: bool
    """Whether the response is kept out of the conversation."""
    output: dict[int, Event]
    """Complete items of the response, by `output_index`."""

    def new_id(self, prefix: str) -> str:
        """Make an id with a prefix."""
        ...

    def next_output(self) -> dict[str, Any]:
        """`response_id` and `output_index` of a new item."""
        ...

    def emit(self, kind: str, **members: Any) -> None:
        """Send an event."""
        ...

    async def emit_when_room(self, kind: str, **members: Any) -> None:
        """Wait until the client's event queue has room for audio, then send an event."""
        ...

    def add(self, wire: Event, *, filler: bool = False) -> tuple[ConversationItem, str | None]:
        """Append an item to the conversation. Returns the item and the id of the previous item."""
        ...

    def update(self, item: ConversationItem, wire: Event) -> None:
        """Replace the wire form of an item."""
        ...


class SpokenItem:
    """Message of the assistant while it is spoken. Its events have the order in which OpenAI's server sends them; the
    constructor sends the first ones.
    """

    def __init__(self, host: ItemHost, *, filler: bool, text_only: bool) -> None:
        self._host = host
        self._text_only = text_only
        self._text = ""
        self.closed = False
        self._started_item: Event = {
            "id": host.new_id("item"),
            "object": "realtime.item",
            "type": "message",
            "role": "assistant",
            "status": "in_progress",
            "content": [],
        }
        self._output_position = host.next_output()
        self._part_position = {**self._output_position, "item_id": self._started_item["id"], "content_index": 0}
        host.emit("response.output_item.added", **self._output_position, item=self._started_item)
        self.item, self._previous_id = host.add(self._started_item, filler=filler)
        if not host.out_of_band:
            host.emit("conversation.item.added", previous_item_id=self._previous_id, item=self._started_item)
        host.emit("response.content_part.added", **self._part_position, part=self._content_part("", part=True))

    async def send_text(self, text: str) -> None:
        """Send a piece of the transcript before its audio, or a piece of the text if the response has no audio."""
        self._text += text
        self.item.spoken.append(SpokenPiece(text))
        kind = "response.output_text.delta" if self._text_only else "response.output_audio_transcript.delta"
        await self._host.emit_when_room(kind, **self._part_position, delta=text)

    async def send_audio(self, audio: bytes) -> None:
        """Send a piece of the audio of the text that was sent last."""
        for start in range(0, len(audio), CHUNK_BYTES):
            piece = audio[start : start + CHUNK_BYTES]
            self.item.spoken[-1].audio += len(piece)
            delta = base64.b64encode(piece).decode()
            await self._host.emit_when_room("response.output_audio.delta", **self._part_position, delta=delta)

    def close(self, status: str = "completed") -> None:
        """Complete the message. A second call does nothing."""
        if self.closed:
            return
        self.closed = True
        host, text = self._host, self._text.strip()
        if self._text_only:
            host.emit("response.output_text.done", **self._part_position, text=text)
        else:
            host.emit("response.output_audio.done", **self._part_position)
            host.emit("response.output_audio_transcript.done", **self._part_position, transcript=text)
        host.emit("response.content_part.done", **self._part_position, part=self._content_part(text, part=True))
        completed_item = {**self._started_item, "status": status, "content": [self._content_part(text)]}
        host.update(self.item, completed_item)
        host.output[self._output_position["output_index"]] = completed_item
        host.emit("response.output_item.done", **self._output_position, item=completed_item)
        if not host.out_of_band:
            host.emit("conversation.item.done", previous_item_id=self._previous_id, item=completed_item)

    def _content_part(self, text: str, *, part: bool = False) -> Event:
        prefix = "" if part else "output_"
        if self._text_only:
            return {"type": f"{prefix}text", "text": text}
        return {"type": f"{prefix}audio", "transcript": text}


def response_usage(stated_usage: Mapping[str, Any], request: Mapping[str, Any] | None, characters: int) -> Event:
    """Token usage of a response. If the model accepted the `request` but stated no usage, for example after a
    cancellation, tokens are estimated from the size of the request and the `characters` of the answer.
    """
    usage = token_usage(stated_usage)
    if request is not None and not usage.total:
        usage = TokenUsage(estimate_tokens(msgspec.json.encode(request)), characters // _CHARACTERS_PER_TOKEN)
    return {
        "total_tokens": usage.total,
        "input_tokens": usage.input,
        "output_tokens": usage.output,
        "input_token_details": {"cached_tokens": usage.cached, "text_tokens": usage.input, "audio_tokens": 0},
        "output_token_details": {"text_tokens": usage.output, "audio_tokens": 0},
    }
