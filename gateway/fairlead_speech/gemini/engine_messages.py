"""Translates a cascaded engine's answers, which have OpenAI Realtime's format, to messages for a client of Gemini
Live.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from fairlead_formats.messages.call import read_arguments
from fairlead_speech.cascaded.audio import BYTES_PER_MS
from fairlead_speech.gemini.messages import TOOL_RESULT, Message, gateway_message
from fairlead_speech.gemini.routed_setup import RoutedSetup
from fairlead_speech.realtime import events
from fairlead_speech.realtime.events import Event, member, text
from fairlead_speech.realtime.session import TOOL_RESULT as RESULT_EVENT
from fairlead_speech.session import MessageSink

MIME_TYPE: Final = "audio/pcm;rate=24000"
_AUDIO_DELTA: Final = "response.output_audio.delta"
_TRANSCRIPT_DELTA: Final = "response.output_audio_transcript.delta"
_TEXT_DELTA: Final = "response.output_text.delta"
_encode: Final = msgspec.json.encode


class EngineMessages:
    """Translates the events of a cascaded engine to Gemini Live messages, and sends them to one client."""

    def __init__(self, client: MessageSink, setup: RoutedSetup, clock: Callable[[], float]) -> None:
        """`clock`: monotonic clock in seconds."""
        self._client = client
        self._setup = setup
        self._clock = clock
        self._calls: list[Message] = []
        """Calls of the client's tools in the response in progress."""
        self.open_calls: dict[str, str] = {}
        """Names of the called tools whose results the client has not sent yet, by call id."""
        self.on_calls: Callable[[], None] = lambda: None
        """Function that is called after calls of the client's tools were sent to the client."""
        self._played_until = 0.0
        """Time at which the client will have played all audio that was sent, if it plays audio on arrival."""

    @property
    def playing(self) -> bool:
        """Whether the client is still playing audio of the engine."""
        return self._clock() < self._played_until

    async def send_transcription(self, transcript: str) -> None:
        """Send the transcript of the user's speech, if the client requested transcripts of the input."""
        if self._setup.shows_input:
            await self._send_content(inputTranscription={"text": transcript})

    async def send(self, payload: bytes) -> None:
        """Translate an event and send it. Events that Gemini Live has no message for are dropped."""
        kind = events.event_type(payload)
        if kind == _AUDIO_DELTA:
            await self._send_audio(text(events.read(payload), "delta"))
        elif kind == _TRANSCRIPT_DELTA and self._setup.shows_output:
            await self._send_content(outputTranscription={"text": text(events.read(payload), "delta")})
        elif kind == _TEXT_DELTA:
            await self._send_content(modelTurn={"parts": [{"text": text(events.read(payload), "delta")}]})
        elif kind == "response.output_item.done":
            self._add_call(member(events.read(payload), "item"))
        elif kind == "response.done":
            await self._send_calls(completed=member(events.read(payload), "response").get("status") == "completed")
        elif kind == RESULT_EVENT:
            event = events.read(payload)
            content = {"callId": event.get("call_id"), "name": event.get("name"), "content": event.get("content")}
            await self._client.send(gateway_message(TOOL_RESULT, content))

    async def finish_turn(self) -> None:
        """End the model's turn after its complete answer."""
        self.open_calls.clear()
        await self._send_content(generationComplete=True)
        await self._send_content(turnComplete=True)

    async def interrupt_turn(self) -> None:
        """End the model's turn before its answer is complete, and cancel the calls of the client's tools that have no
        result.
        """
        await self.stop_playing()
        await self.cancel_calls()
        await self._send_content(turnComplete=True)

    async def cancel_calls(self) -> None:
        """Cancel the calls for which the client has not sent a result."""
        ids = [*self.open_calls]
        self._calls = []
        self.open_calls.clear()
        if ids:
            await self._client.send(_encode({"toolCallCancellation": {"ids": ids}}))

    async def stop_playing(self) -> None:
        """Tell the client to stop playing audio."""
        self._played_until = 0.0
        await self._send_content(interrupted=True)

    async def _send_audio(self, audio: str) -> None:
        seconds = len(audio) * 3 // 4 / BYTES_PER_MS / 1000
        self._played_until = max(self._played_until, self._clock()) + seconds
        await self._send_content(modelTurn={"parts": [{"inlineData": {"mimeType": MIME_TYPE, "data": audio}}]})

    def _add_call(self, item: Event) -> None:
        if item.get("type") == "function_call" and item.get("status") == "completed":
            name = self._setup.client_name(text(item, "name"))
            arguments = read_arguments(item.get("arguments"))
            call = {"id": text(item, "call_id"), "name": name, "args": arguments if isinstance(arguments, dict) else {}}
            self._calls.append(call)

    async def _send_calls(self, *, completed: bool) -> None:
        """Send the calls of a response in one message. If the response was not `completed`, its calls are dropped."""
        calls, self._calls = self._calls, []
        if not calls or not completed:
            return
        self.open_calls |= {str(call["id"]): str(call["name"]) for call in calls}
        await self._client.send(_encode({"toolCall": {"functionCalls": calls}}))
        self.on_calls()

    async def _send_content(self, **content: object) -> None:
        await self._client.send(_encode({"serverContent": content}))
