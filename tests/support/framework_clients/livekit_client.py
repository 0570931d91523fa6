"""Conversation of LiveKit Agents with a speech model: a program that runs in a separate environment.

    python livekit_client.py openai|google URL TEXT

The user speaks to OpenAI's model and writes to Google's, because audio that is resampled for Google's model is never
quite silent. The model's calls are answered. After the model has said TEXT, everything that its session reported is
printed as one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import aiohttp
from google.genai import types
from livekit import rtc
from livekit.agents import llm
from livekit.plugins import google, openai

MODELS = {"openai": "gpt-realtime", "google": "gemini-3.8-live"}
PIECE_SECONDS = 0.1
RATE = 24000


RAW = {"name": "theirs", "description": "The client's", "parameters": {"type": "object"}}


@llm.function_tool(raw_schema=RAW)  # type: ignore[untyped-decorator] # that package is in an environment of its own
async def theirs(raw_arguments: dict[str, object]) -> str:
    """The client's own tool."""
    return "yes"


def audio(value: int) -> rtc.AudioFrame:
    """A piece of audio in which every byte is the same."""
    samples = int(RATE * PIECE_SECONDS)
    return rtc.AudioFrame(bytes([value]) * samples * 2, RATE, 1, samples)


class Listener:
    """Records everything that a session reports."""

    def __init__(self, session: Any, api: str, last: str) -> None:
        self.told: list[Any] = []
        self.done = asyncio.Event()
        self._session = session
        self._api = api
        self._last = last
        self._tasks: set[asyncio.Task[None]] = set()
        session.on("generation_created", self._generation)
        session.on("openai_server_event_received", lambda event: self.told.append(["event", event["type"]]))
        session.on("input_audio_transcription_completed", lambda event: self.told.append(["heard", event.transcript]))
        session.on("error", lambda error: self.told.append(["error", str(error.error)]))

    def _generation(self, generation: Any) -> None:
        task = asyncio.create_task(self._consume(generation))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _consume(self, generation: Any) -> None:
        transcript = ""
        samples = 0
        calls = []
        async for message in generation.message_stream:
            async for text in message.text_stream:
                transcript += text
            async for audio_frame in message.audio_stream:
                samples += audio_frame.samples_per_channel
        async for call in generation.function_stream:
            calls.append(call)
        self.told.append(["generation", transcript.strip(), samples, [call.name for call in calls]])
        for call in calls:
            context = self._session.chat_ctx
            context.items.append(
                llm.FunctionCallOutput(call_id=call.call_id, name=call.name, output="yes", is_error=False)
            )
            await self._session.update_chat_ctx(context)
        if calls and self._api == "openai":
            self._session.generate_reply()
        if self._last in transcript:
            self.done.set()


async def talk(api: str, url: str, last: str) -> list[Any]:
    """The conversation."""
    async with aiohttp.ClientSession() as http:
        if api == "openai":
            model: Any = openai.realtime.RealtimeModel(
                model=MODELS[api], base_url=url, api_key="any", http_session=http
            )
        else:
            model = google.realtime.RealtimeModel(
                model=MODELS[api], api_key="any", http_options=types.HttpOptions(base_url=url)
            )
        session = model.session()
        listener = Listener(session, api, last)
        await session.update_tools([theirs])
        if api == "openai":
            for value in (1, 0):
                session.push_audio(audio(value))
        else:
            session.generate_reply()
        async with asyncio.timeout(30):
            await listener.done.wait()
        await session.aclose()
        return listener.told


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(talk(*sys.argv[1:4]))) + "\n")
