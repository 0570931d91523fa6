"""Properties of each tool server of `fairlead serve`, over stdio and HTTP, with the SDK's client."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from commands import fairlead
from fairlead_servers.table import SERVERS
from ports import free_port
from servedtools import VIAS, Via, served, structured_content, text_of
from waiting import until

pytestmark = pytest.mark.timeout(120)  # each server starts an interpreter


@dataclass(frozen=True)
class Case:
    """Calls of one server."""

    tools: dict[str, bool]
    """The server's tools, and whether they are read-only."""
    call: tuple[str, dict[str, Any]]
    answer: str
    """Text that the answer contains."""
    settings: dict[str, str] = field(default_factory=dict)


EXAMPLE: Final = {"example": "true"}
CASES: Final = {
    "dice-roller": Case({"roll": True, "roll_table": True}, ("roll", {"expression": "2d6mi6 + 1"}), '"total": 13'),
    "memory": Case(
        {"search_sessions": True, "query_entities": True, "get_summary": True, "search_facts": True},
        ("query_entities", {"query": "warden"}),
        '"name": "Corvin"',
        EXAMPLE,
    ),
    "rules-lookup": Case(
        {"search_rules": True, "get_rule": True}, ("get_rule", {"id": "lantern/falling"}), "three meters"
    ),
    "session-manager": Case(
        {"get_summary": True, "search_history": True}, ("search_history", {"query": "rope"}), "Fifty feet", EXAMPLE
    ),
    "file-io": Case(
        {"write_file": False, "read_file": True},
        ("write_file", {"path": "notes/today.md", "content": "Ahoy"}),
        '"path": "notes/today.md"',
    ),
    "music-ambiance": Case(
        {"play_track": False, "stop_music": False},
        ("play_track", {"mood": "Calm"}),
        '"mood": "calm"',
        {"player": "none"},
    ),
    "web-search": Case({"search": True, "fetch_page": True}, ("search", {"query": "bowline"}), "index:knots.md"),
    "image-gen": Case(
        {"generate_image": False}, ("generate_image", {"prompt": "a keep"}), "without a model", {"size": "64x64"}
    ),
}


def test_each_server_of_the_table_has_a_case() -> None:
    assert CASES.keys() == SERVERS.keys()


@pytest.mark.parametrize("via", VIAS)
@pytest.mark.parametrize("name", CASES)
async def test_a_server_lists_its_tools_and_answers_calls(name: str, via: Via, tmp_path: Path) -> None:
    case = CASES[name]
    async with served(name, via, tmp_path, case.settings) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {
            each: tool.annotations is not None and tool.annotations.read_only_hint for each, tool in tools.items()
        } == case.tools
        assert all(tool.description and tool.output_schema for tool in tools.values())
        assert case.answer in text_of(await client.call_tool(*case.call))
        structured_content(await client.call_tool(*case.call))

        for tool in tools.values():
            unknown = await client.call_tool(tool.name, {"nonsense": 1})
            assert unknown.is_error
            assert text_of(unknown).startswith(
                f"the arguments of {tool.name} are invalid: unknown argument 'nonsense'; valid: "
            )
            required = tool.input_schema.get("required", [])
            if required:
                missing = await client.call_tool(tool.name, {})
                assert missing.is_error
                assert f"{required[0]} is missing" in text_of(missing)
                wrong = await client.call_tool(tool.name, {each: ["not", {"of": "that type"}] for each in required})
                assert wrong.is_error
                assert text_of(wrong).startswith(f"the arguments of {tool.name} are invalid: {required[0]}: ")


async def test_ingested_records_are_found_at_once_by_a_server_that_runs(tmp_path: Path) -> None:
    file = tmp_path / "evening.jsonl"
    file.write_text('{"type": "fact", "id": "moon", "text": "The moon is a lantern."}\n')
    async with served("memory", "http", tmp_path) as client:
        assert structured_content(await client.call_tool("search_facts", {"query": "moon"})) == {"facts": []}
        code, out, _ = await fairlead("ingest", str(file), "--json", FAIRLEAD_DATA=str(tmp_path))
        assert (code, json.loads(out)["records"]["fact"]) == (0, 1)
        assert "lantern" in text_of(await client.call_tool("search_facts", {"query": "moon"}))

        file.write_text("nonsense")
        code, _, err = await fairlead("ingest", str(file), FAIRLEAD_DATA=str(tmp_path))
        assert (code, err.count("\n")) == (2, 1)
        assert "line 1 of evening.jsonl" in err


def test_a_server_over_http_says_that_it_is_healthy_and_ends_by_sigterm_with_0(tmp_path: Path) -> None:
    port = free_port()
    words = [sys.executable, "-m", "fairlead_cli", "serve", "dice-roller", "--transport", "http", "--port", str(port)]
    process = subprocess.Popen([*words, "--data", str(tmp_path)], stderr=subprocess.PIPE, text=True)

    def healthy() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    try:
        until("a healthy server", lambda: healthy() or process.poll() is not None, seconds=60)
        second = subprocess.run([*words, "--data", str(tmp_path)], capture_output=True, text=True, check=False)
        assert (second.returncode, second.stderr.count("\n")) == (1, 1)
        assert f"cannot listen on 127.0.0.1:{port}" in second.stderr
        process.send_signal(signal.SIGTERM)
        assert (process.wait(30), process.communicate()[1]) == (0, "")
    finally:
        process.kill()
        process.wait()
