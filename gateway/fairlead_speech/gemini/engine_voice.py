"""Speech of a cascaded engine as messages of Gemini Live, for the client of a session whose turn it answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from fairlead_formats.messages.call import read_arguments
from fairlead_speech import realtime_events
from fairlead_speech.cascaded.audio import BYTES_PER_MS
from fairlead_speech.gemini.messages import Message, side_note
from fairlead_speech.gemini.notices import TOOL_RESULT
from fairlead_speech.gemini.routed_setup import RoutedSetup
from fairlead_speech.realtime.session import TOOL_RESULT as RESULT_EVENT
from fairlead_speech.realtime_events import Event, member, text
from fairlead_speech.session import FrameSink

MIME_TYPE: Final = "audio/pcm;rate=24000"
_AUDIO: Final = "response.output_audio.delta"
_TRANSCRIPT: Final = "response.output_audio_transcript.delta"
_TEXT: Final = "response.output_text.delta"
_encode: Final = msgspec.json.encode


class EngineVoice:
    """Takes events of an engine, in the form of OpenAI Realtime."""

    def __init__(self, client: FrameSink, setup: RoutedSetup, clock: Callable[[], float]) -> None:
        """`clock` in seconds."""
        self._client = client
        self._setup = setup
        self._clock = clock
        self._calls: list[Message] = []
        """Calls of the client's tools in the response in progress."""
        self.open: dict[str, str] = {}
        """Calls that the client has not answered: their names by their ids."""
        self.when_called: Callable[[], None] = lambda: None
        """Called when the client has calls to answer."""
        self._played_at = 0.0
        """Time at which the client has played what it got, if it plays as it comes."""

    @property
    def playing(self) -> bool:
        """Whether the client is still playing what was said here."""
        return self._clock() < self._played_at

    async def heard(self, words: str) -> None:
        """Show what the user has said, where the client wants to see it."""
        if self._setup.shows_heard:
            await self._say(inputTranscription={"text": words})

    async def send(self, frame: bytes) -> None:
        """Take an event."""
        kind = realtime_events.kind_of(frame)
        if kind == _AUDIO:
            await self._speak(text(realtime_events.read(frame), "delta"))
        elif kind == _TRANSCRIPT and self._setup.shows_said:
            await self._say(outputTranscription={"text": text(realtime_events.read(frame), "delta")})
        elif kind == _TEXT:
            await self._say(modelTurn={"parts": [{"text": text(realtime_events.read(frame), "delta")}]})
        elif kind == "response.output_item.done":
            self._called(member(realtime_events.read(frame), "item"))
        elif kind == "response.done":
            await self._call(completed=member(realtime_events.read(frame), "response").get("status") == "completed")
        elif kind == RESULT_EVENT:
            event = realtime_events.read(frame)
            shown = {"callId": event.get("call_id"), "name": event.get("name"), "content": event.get("content")}
            await self._client.send(side_note(TOOL_RESULT, shown))

    async def answered(self) -> None:
        """The turn is over: all of it was said."""
        self.open.clear()
        await self._say(generationComplete=True)
        await self._say(turnComplete=True)

    async def interrupted(self) -> None:
        """The turn is over before all of it was said: calls of the client's tools are taken back."""
        await self.stop_playing()
        await self.take_back()
        await self._say(turnComplete=True)

    async def take_back(self) -> None:
        """Take back calls that the client has not answered."""
        ids = [*self.open]
        self._calls = []
        self.open.clear()
        if ids:
            await self._client.send(_encode({"toolCallCancellation": {"ids": ids}}))

    async def stop_playing(self) -> None:
        """Have the client play no more of what it got."""
        self._played_at = 0.0
        await self._say(interrupted=True)

    async def _speak(self, audio: str) -> None:
        seconds = len(audio) * 3 // 4 / BYTES_PER_MS / 1000
        self._played_at = max(self._played_at, self._clock()) + seconds
        await self._say(modelTurn={"parts": [{"inlineData": {"mimeType": MIME_TYPE, "data": audio}}]})

    def _called(self, item: Event) -> None:
        if item.get("type") == "function_call" and item.get("status") == "completed":
            name = self._setup.client_name(text(item, "name"))
            arguments = read_arguments(item.get("arguments"))
            call = {"id": text(item, "call_id"), "name": name, "args": arguments if isinstance(arguments, dict) else {}}
            self._calls.append(call)

    async def _call(self, *, completed: bool) -> None:
        """Send the calls of a response that is over, all in one message."""
        calls, self._calls = self._calls, []
        if not calls or not completed:
            return
        self.open |= {str(call["id"]): str(call["name"]) for call in calls}
        await self._client.send(_encode({"toolCall": {"functionCalls": calls}}))
        self.when_called()

    async def _say(self, **content: object) -> None:
        await self._client.send(_encode({"serverContent": content}))
