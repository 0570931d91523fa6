"""Tiers of a session whose slow turns an engine answers, and the texts of its turns."""

from __future__ import annotations

from typing import Any

from cascadeworld import RoutedWorld
from fairlead_api.documents.rules import Tier, TierSelection
from fairlead_speech.scripted import SpokenCall
from speechworld import RealtimeClient

TIERS = (
    Tier(name="fast", max_latency_ms=500, default=True),
    Tier(
        name="deep", max_latency_ms=4000, selection=TierSelection(keywords=("legend",), commands=("think carefully",))
    ),
)
LOOKUP = {"name": "lookup", "description": "Look it up", "inputSchema": {"type": "object"}}
CALL = SpokenCall("demo__lookup", {}, "call_1")
DEEP: dict[str, Any] = {"tiers": TIERS, "slow": [LOOKUP]}


def transcripts(client: RealtimeClient) -> list[str]:
    return [each["transcript"] for each in client.of_type("response.output_audio_transcript.done")]


async def ask(client: RealtimeClient, text: str, **response: Any) -> None:
    content = [{"type": "input_text", "text": text}]
    await client.send("conversation.item.create", item={"type": "message", "role": "user", "content": content})
    await client.send("response.create", **({"response": response} if response else {}))


def spoken_sentences(world: RoutedWorld) -> list[str]:
    """Sentences that were spoken instead of the speech model's, according to its input."""
    items = [each["item"] for each in world.session.of_type("conversation.item.create")]
    return [item["content"][0]["text"] for item in items if item.get("role") == "assistant"]
