"""Messages of a session are processed in order, except audio."""

from __future__ import annotations

import asyncio

from fairlead_speech.tiers import UserText, UserTexts


async def test_pieces_of_a_turn_that_wait_are_joined() -> None:
    looked: list[tuple[str, str, bool]] = []
    busy = asyncio.Event()
    over = asyncio.Event()

    async def look(heard: UserText) -> None:
        looked.append((heard.turn, heard.text, heard.final))
        await busy.wait()
        if heard.turn == "2":
            over.set()

    hearing = UserTexts(look)
    hearing.add(UserText("1", "tell ", final=False, continues=True))
    await asyncio.sleep(0)
    hearing.add(UserText("1", "me ", final=False, continues=True))
    hearing.add(UserText("1", "the ", final=False, continues=True))
    hearing.add(UserText("1", "tell me the legend", final=True, continues=False))
    hearing.add(UserText("2", "thanks", final=True, continues=False))
    busy.set()
    await asyncio.wait_for(over.wait(), 5)
    assert looked == [("1", "tell ", False), ("1", "tell me the legend", True), ("2", "thanks", True)]
    await hearing.aclose()
