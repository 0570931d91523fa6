"""Transcripts of model APIs, which a client receives directly and through a gateway, and splits of bodies at any byte.

bare, ours = await with_and_without(tmp_path, [ScriptedTurn("Hi")], ask)
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from fairlead_formats.scripted_turns import ScriptedTurn
from fairlead_formats.wire.protocol import WireStream
from fairlead_llm.scripted_model import ScriptedModel
from fairlead_mcp.sse import EventParser
from llmworld import llm_world
from toolservers import serve_asgi

Said = TypeVar("Said")


async def with_and_without(
    folder: Path, turns: Sequence[ScriptedTurn], ask: Callable[[str], Awaitable[Said]], **world: Any
) -> tuple[Said, Said]:
    """A client's view of a transcript that it receives directly from the model, and of the same through a gateway.
    `ask` receives the address of the model or the gateway, without a path.
    """
    async with serve_asgi(ScriptedModel(*turns)) as port:
        bare = await ask(f"http://127.0.0.1:{port}")
    async with llm_world(folder, *turns, **world) as running:
        ours = await ask(f"http://127.0.0.1:{running.gateway.port}")
    return bare, ours


def splits(body: bytes) -> Iterator[list[bytes]]:
    """The body in two parts, split at each byte, and byte by byte."""
    for at in range(1, len(body)):
        yield [body[:at], body[at:]]
    yield [body[at : at + 1] for at in range(len(body))]


def stream_bytes(stream: WireStream, rounds: Iterable[Iterable[bytes]]) -> bytes:
    """Bytes that a client receives for rounds whose provider streams arrive in these pieces. No calls run in
    between.
    """
    out = b""
    for number, pieces in enumerate(rounds):
        if number:
            stream.next_round()
        parser = EventParser()
        events = itertools.chain.from_iterable(map(parser.feed, pieces))
        out += b"".join([stream.feed(event.data) for event in events]) + stream.end_round()
    return out + stream.finish({})


def without_marks(text: str) -> str:
    """A text of answers without the random marks of thoughts, which differ in each answer."""
    return re.sub(r"(\.fairlead-|(?<=fairlead\.\d\.))(?:[0-9a-f]{48}-[0-9]+|[0-9a-f]{32})\.?", "", text)
