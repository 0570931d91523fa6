"""The two tier tables of the example with a voice agent, as its design writes them, and its agents."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from commands import fairlead
from fairlead_servers.table import SERVERS

UTTERANCES: Final = {
    "What is your name?": ("fast", "default"),
    "What did we promise her last session?": ("standard", "keywords"),
    "How does falling work?": ("standard", "keywords"),
    "Take your time: what of the Shadowfell conspiracy?": ("deep", "command"),
    "Tell me everything you know about the conspiracy": ("deep", "keywords"),
}
"""Maps a user's sentence to the tier that it chooses, and the rule by which."""
CASCADE: Final = {
    "fast": {
        "dice-roller": {"roll", "roll_table"},
        "memory": {"query_entities"},
        "file-io": {"write_file", "read_file"},
        "music-ambiance": {"play_track", "stop_music"},
    },
    "standard": {
        "memory": {"search_sessions", "search_facts", "get_summary"},
        "rules-lookup": {"search_rules", "get_rule"},
        "session-manager": {"get_summary", "search_history"},
    },
    "deep": {"image-gen": {"generate_image"}, "web-search": {"search", "fetch_page"}},
}
"""Tools that each tier adds for agents whose orchestrator speaks."""
WEB: Final = {"web-search__search", "web-search__fetch_page", "image-gen__generate_image"}
"""Tools that a character of the game may not call."""
SPEECH: Final = {
    "fast": {"dice-roller": {"roll", "roll_table"}, "memory": {"query_entities"}},
    "standard": {"memory": {"search_sessions"}, "rules-lookup": {"search_rules", "get_rule"}},
    "deep": {
        "memory": {"search_facts", "get_summary"},
        "session-manager": {"get_summary", "search_history"},
        "file-io": {"write_file", "read_file"},
        "music-ambiance": {"play_track", "stop_music"},
        "image-gen": {"generate_image"},
        "web-search": {"search", "fetch_page"},
    },
}
"""Tools that each tier adds for an engine that speaks by itself."""


def flat(table: dict[str, dict[str, set[str]]], tier: str) -> set[str]:
    """Exposed names of the tools that a tier shows: its own and those of the faster ones."""
    order = list(table)
    shown = order[: order.index(tier) + 1]
    return {f"{server}__{tool}" for each in shown for server, tools in table[each].items() for tool in tools}


def of_bundled(names: set[str]) -> set[str]:
    """The names of tools whose server is included in the package."""
    return {name for name in names if name.partition("__")[0] in SERVERS}


@asynccontextmanager
async def connect_agent(url: str, key: str) -> AsyncIterator[Client]:
    """SDK client of an agent, which sends its API key."""
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


async def listed_tools(url: str, key: str) -> set[str]:
    """Names of the tools that an endpoint lists for an agent."""
    async with connect_agent(url, key) as client:
        return {tool.name for tool in (await client.list_tools()).tools}


async def key_of(agent: str, folder: Path, *words: str) -> str:
    """New API key of an agent. `words`: where it is stored, `--file FILE` or `--secret NAME --namespace NS`."""
    out = folder / f"{agent}.key"
    code, _, err = await fairlead("keys", "create", agent, *words, "--out", str(out))
    assert code == 0, err
    return out.read_text().strip()


async def utterances_choose_tiers(base: str, key: str) -> None:
    """Check the tiers of sentences, of a first turn, with a queue, and of a second long request."""
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}) as http:

        async def choose_tier(**request: Any) -> dict[str, Any]:
            answer = await http.post(f"{base}/v1/tier", json=request)
            return dict(answer.raise_for_status().json())

        choices = {text: await choose_tier(text=text, number=4) for text in UTTERANCES}
        assert {text: (choice["tier"], choice["rule"]) for text, choice in choices.items()} == UTTERANCES
        assert (await choose_tier(text="Hello there"))["rule"] == "conversation"
        assert (await choose_tier(text="What did we do last session?", number=4, queueDepth=3))["tier"] == "fast"
        state = choices["Tell me everything you know about the conspiracy"]["state"]
        again = await choose_tier(text="And everything you know about knots", state=state)
        assert again["tier"] != "deep", "not twice in a row"
