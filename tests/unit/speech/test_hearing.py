"""Messages of a session are looked through in order, apart from audio."""

from __future__ import annotations

import asyncio

from fairlead_speech.hearing import HeardText, Hearing


async def test_pieces_of_a_turn_that_wait_are_joined() -> None:
    looked: list[tuple[str, str, bool]] = []
    busy = asyncio.Event()
    over = asyncio.Event()

    async def look(heard: HeardText) -> None:
        looked.append((heard.turn, heard.text, heard.final))
        await busy.wait()
        if heard.turn == "2":
            over.set()

    hearing = Hearing(look)
    hearing.add(HeardText("1", "tell ", final=False, grows=True))
    await asyncio.sleep(0)
    hearing.add(HeardText("1", "me ", final=False, grows=True))
    hearing.add(HeardText("1", "the ", final=False, grows=True))
    hearing.add(HeardText("1", "tell me the legend", final=True, grows=False))
    hearing.add(HeardText("2", "thanks", final=True, grows=False))
    busy.set()
    await asyncio.wait_for(over.wait(), 5)
    assert looked == [("1", "tell ", False), ("1", "tell me the legend", True), ("2", "thanks", True)]
    await hearing.aclose()
