"""State of the example with a voice agent: stores data in its servers, and checks that they still have the data."""

from __future__ import annotations

import json
from typing import Final

from mcp import Client

from servedtools import structured_content, text_of

KEEPERS: Final = ("memory", "session-manager", "file-io", "music-ambiance")
"""Servers that store data."""
FACT: Final = '{"type": "fact", "id": "moon", "text": "The moon is a lantern that somebody hung there."}\n'
"""A record for `fairlead ingest`."""


async def write_state(client: Client) -> str:
    """Write a file, and start music. Returns the track that plays. The caller has to ingest the record itself."""
    structured_content(await client.call_tool("file-io__write_file", {"path": "log.md", "content": "Landfall."}))
    playing = structured_content(await client.call_tool("music-ambiance__play_track", {"mood": "tavern"}))
    return str(playing["track"])


async def state_survived(client: Client, track: str) -> bool:
    """Whether all servers answer again. Raises AssertionError if a server answers without its earlier data."""
    answers = [
        await client.call_tool("memory__search_facts", {"query": "moon lantern"}),
        await client.call_tool("session-manager__search_history", {"query": "rope"}),
        await client.call_tool("file-io__read_file", {"path": "log.md"}),
        await client.call_tool("memory__get_summary", {"session_id": "harbor-1"}),
    ]
    if any(answer.is_error for answer in answers):
        return False
    facts, history, text, _ = (text_of(answer) for answer in answers)
    assert "somebody hung there" in facts
    assert "Fifty feet" in history
    assert "Landfall." in text
    (state,) = [
        resource
        for resource in (await client.list_resources()).resources
        if str(resource.uri).endswith("music://state")
    ]
    (content,) = (await client.read_resource(state.uri)).contents
    now = json.loads(content.text)  # type: ignore[union-attr]  # it is text
    assert (now["track"], now["playing"]) == (track, True)
    return True
