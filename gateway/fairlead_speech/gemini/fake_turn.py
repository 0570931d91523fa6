"""One turn of the scripted Gemini Live: its messages in the order of the real server."""

from __future__ import annotations

import asyncio
import base64
from typing import Any, Protocol

from fairlead_speech.scripted import MadeCall, SpeechScript, SpokenReply, audio_of


class LiveConnection(Protocol):
    """Connection that a turn is of."""

    setup: dict[str, Any]
    calls: dict[str, str]
    made: dict[str, MadeCall]

    def behavior(self, name: str) -> str:
        """How the model calls a function."""
        ...

    async def send(self, **message: Any) -> None:
        """Send a message."""
        ...

    async def hand_out(self, *, resumable: bool = True) -> None:
        """Send a handle."""
        ...


class LiveTurn:
    """A turn in progress."""

    def __init__(self, session: LiveConnection, script: SpeechScript) -> None:
        self._session = session
        self._script = script
        self.answered = asyncio.Event()
        """Set when a call has got its result."""
        self.again = False
        """Whether a result is to be said when this is said."""
        self.over = False
        self._task: asyncio.Task[None] | None = None
        self._number = 0

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run())

    async def cancel(self) -> None:
        """End it early."""
        self.over = True
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        session = self._session
        while await self._reply(self._script.next_reply()):
            pass
        await session.send(serverContent={"generationComplete": True})
        usage = {"promptTokenCount": 20, "responseTokenCount": 10, "totalTokenCount": 30}
        await session.send(serverContent={"turnComplete": True}, usageMetadata=usage)
        if self.again:
            self.again = False
            await self._run()
            return
        self.over = True
        await session.hand_out()

    async def _reply(self, reply: SpokenReply) -> bool:
        """Say and call; whether the model goes on, as it has waited for results."""
        session = self._session
        for number, (word, audio) in enumerate(zip(reply.text.split(), audio_of(reply.text), strict=True)):
            if "outputAudioTranscription" in session.setup:
                await session.send(serverContent={"outputTranscription": {"text": f"{word} "}})
            data = {"mimeType": "audio/pcm;rate=24000", "data": base64.b64encode(audio).decode()}
            await session.send(serverContent={"modelTurn": {"parts": [{"inlineData": data}]}})
            if number == 0 and reply.held is not None:
                await reply.held.wait()
            await asyncio.sleep(0)
        waits = []
        written = []
        for call in reply.calls:
            self._number += 1
            ident = call.id or f"call_{id(self)}_{self._number}"
            behavior = session.behavior(call.name)
            session.calls[ident] = behavior
            session.made[ident] = MadeCall.now(call.name)
            waits += [ident] if behavior == "BLOCKING" else []
            written.append({"id": ident, "name": call.name, "args": dict(call.arguments)})
        if written:
            await session.send(toolCall={"functionCalls": written})
        while not session.calls.keys().isdisjoint(waits):
            self.answered.clear()
            await self.answered.wait()
        return bool(waits)
