"""Floods of messages of a speech session, sent by a process of its own: `python framefloods.py URL FLOOD`.

It sends the messages of a flood, over a new session each time that one is closed, until its standard input ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
from collections.abc import AsyncIterator, Callable

import aiohttp

MIB = 1 << 20
SETUP = '{"setup":{"model":"models/gemini-3.8-live"}}'


def _event(unit: str, size: int, *, live: bool = False, count: int | None = None) -> str:
    units = unit * (size // len(unit) if count is None else count)
    if live:
        return f'{{"clientContent":{{"turns":[{units}{{}}],"turnComplete":false}}}}'
    return f'{{"type":"conversation.item.create","item":{{"type":"message","role":"user","content":[{units}{{}}]}}}}'


def _blobs(count: int) -> str:
    blobs = ",".join(['{"mimeType":"audio/pcm","data":"AQEB"}'] * count)
    return f'{{"realtimeInput":{{"mediaChunks":[{blobs}]}}}}'


FLOODS: dict[str, Callable[[], tuple[str, ...]]] = {
    "15 MiB of empty objects": lambda: (_event("{},", 15 * MIB),),
    "15 MiB of members": lambda: (_event('{"a":1},', 15 * MIB),),
    "15 MiB of empty texts": lambda: (_event('"",', 15 * MIB),),
    "1 MiB of empty objects": lambda: (_event("{},", MIB - 200),),
    "as many objects as may be": lambda: (_event('{"a b": 1},', MIB, count=9990),),
    "updates of as many tools as may be": lambda: (
        _event('{"type":"function","name":"a"},', MIB, count=6600)
        .replace("conversation.item.create", "session.update")
        .replace('"item":{"type":"message","role":"user","content"', '"session":{"type":"realtime","tools"'),
    ),
    "1 MiB of escapes": lambda: ('{"type":"x","a": "' + "\\n" * (MIB // 2 - 50) + '"}',),
    "long numbers": lambda: (_event("1" * 4000 + ",", MIB - 200),),
    "a member twice, often": lambda: tuple(f'{{"type":"x","a":{number},"a":[{"{}," * 9000}1]}}' for number in range(4)),
    "small messages": lambda: ('{"type":"x"}',) * 1000,
    "15 MiB of audio": lambda: (f'{{"type":"input_audio_buffer.append","audio":"{"A" * 15 * MIB}"}}',),
}
"""Messages by name, made on demand, because together they take 100 MB."""
LIVE_FLOODS: dict[str, Callable[[], tuple[str, ...]]] = {
    "15 MiB of empty objects": lambda: (_event("{},", 15 * MIB, live=True),),
    "1 MiB of empty objects": lambda: (_event("{},", MIB - 200, live=True),),
    "as many objects as may be": lambda: (_event('{"a_b": 1},', MIB, live=True, count=9990),),
    "as many small blobs as may be": lambda: (_blobs(4900),),
    "10 MiB of audio": lambda: (
        f'{{"realtimeInput":{{"audio":{{"mimeType":"audio/pcm","data":"{"A" * 10 * MIB}"}}}}}}',
    ),
}


@contextlib.asynccontextmanager
async def flood_session(url: str, flood: str) -> AsyncIterator[None]:
    """Flood a session from another process for the duration of the context."""
    command = sys.executable, __file__, url, flood
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert await process.stdout.readline() == b"sent\n"
        yield
    finally:
        process.stdin.close()
        await process.wait()


async def _flood(url: str, messages: tuple[str, ...], *, live: bool) -> None:
    told = False
    async with aiohttp.ClientSession() as http:
        while True:
            with contextlib.suppress(aiohttp.ClientError, ConnectionError, RuntimeError):
                async with http.ws_connect(url, max_msg_size=0) as socket:
                    if live:
                        await socket.send_str(SETUP)
                    await socket.receive()
                    reading = asyncio.create_task(_read(socket))
                    for message in itertools.cycle(messages):
                        await socket.send_str(message)
                        if not told:
                            told = True
                            sys.stdout.write("sent\n")
                            sys.stdout.flush()
                        if reading.done():
                            break


async def _read(socket: aiohttp.ClientWebSocketResponse) -> None:
    while (await socket.receive()).type is aiohttp.WSMsgType.TEXT:
        pass


async def _main(url: str, flood: str) -> None:
    live = "BidiGenerateContent" in url
    flooding = asyncio.create_task(_flood(url, (LIVE_FLOODS if live else FLOODS)[flood](), live=live))
    await asyncio.to_thread(sys.stdin.read)
    flooding.cancel()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
