"""`fairlead tools --format`, `convert` and `plan` with a real gateway."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import fairlead
from fairlead_formats.registry import FORMATS
from gatewayworld import catalog, running
from ports import free_port

NOWHERE = "http://127.0.0.1:9/mcp"
OPEN = {"name": "open", "inputSchema": {"type": "object", "additionalProperties": {"type": "string"}}}
DEMO = catalog("demo", NOWHERE, ["add", OPEN])
OPENAI = [{"type": "function", "function": {"name": "a", "parameters": {"type": "object", "properties": {}}}}]


async def test_tools_are_printed_in_a_providers_format_with_losses_beside_them(tmp_path: Path) -> None:
    away = catalog("away", NOWHERE, ["gone"], online=False)
    async with running(tmp_path, DEMO, away) as gateway:
        url = f"http://127.0.0.1:{gateway.port}/mcp"
        code, out, err = await fairlead("tools", "--format", "OpenAI", "--strict", "--url", url)
        _, whole, _ = await fairlead("tools", "--format", "openai", "--output", "json", "--url", url)
        wrong = await fairlead("tools", "--format", "cobol", "--url", url)
    assert code == 0
    assert [tool["function"]["name"] for tool in json.loads(out)] == ["demo__add", "demo__open"]
    assert "demo__open" in err
    assert "non-strict" in err
    assert "away__gone is left out: its server is offline" in err
    assert json.loads(whole)["names"]["demo__add"] == "demo__add"
    assert wrong[0] == 2
    assert f"use one of: {', '.join(FORMATS)}" in wrong[2]


async def test_the_tier_or_server_of_the_url_counts(tmp_path: Path) -> None:
    async with running(tmp_path, DEMO, catalog("other", NOWHERE, ["x"])) as gateway:
        base = f"http://127.0.0.1:{gateway.port}"
        _, output, _ = await fairlead("tools", "--format", "mcp", "--server", "default/other", "--url", f"{base}/mcp")
        code, _, err = await fairlead("tools", "--format", "mcp", "--url", f"{base}/mcp/warp")
    assert [tool["name"] for tool in json.loads(output)] == ["other__x"]
    assert (code, "you have no latency tier 'warp'" in err) == (2, True)


async def test_a_file_or_a_pipe_is_converted_without_a_gateway(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    file.write_text(json.dumps(OPENAI))
    words = ("convert", "--from", "openai", "--to", "Anthropic")
    by_file = await fairlead(*words, str(file))
    by_pipe = await fairlead(*words, "-", stdin=json.dumps({"tools": OPENAI}))
    assert by_file == by_pipe
    assert by_file[0] == 0
    assert json.loads(by_file[1]) == [{"name": "a", "input_schema": {"type": "object", "properties": {}}}]


@pytest.mark.parametrize(
    ("words", "stdin", "code", "sentence"),
    [
        (("--from", "x", "--to", "mcp", "-"), "[]", 2, "'x' is not a format"),
        (("--from", "mcp", "--to", "mcp", "-"), "{", 2, "is not JSON"),
        (("--from", "mcp", "--to", "mcp", "missing.json"), "", 2, "cannot read missing.json"),
        (("--from", "mcp", "--to", "openai", "-"), "[7]", 1, "refused"),
    ],
)
async def test_definitions_that_cannot_be_converted_end_in_a_sentence(
    words: tuple[str, ...], stdin: str, code: int, sentence: str
) -> None:
    ended, _, err = await fairlead("convert", *words, stdin=stdin)
    assert (ended, sentence in err, "Traceback" in err) == (code, True, False)


async def test_a_plan_names_model_tools_and_what_was_cut(tmp_path: Path) -> None:
    chat = tmp_path / "chat.json"
    chat.write_text('[{"role": "user", "content": "hello"}]')
    async with running(tmp_path, DEMO) as gateway:
        url = ("--url", f"http://127.0.0.1:{gateway.port}/mcp")
        words = ("plan", "--model", "gpt-5-mini", "--messages", str(chat), "--max-tools", "1", "--pin", "demo__open")
        code, out, _ = await fairlead(*words, *url)
        _, whole, _ = await fairlead(*words, "--output", "json", *url)
        unfit = await fairlead("plan", "--model", "gpt-5-mini", "--reserved", "1000000", *url)
        neither = await fairlead("plan", *url)
    assert code == 0
    assert out.startswith("gpt-5-mini (openai-chat)")
    assert "1 tool cut (maxTools, " in out
    assert json.loads(whole)["cut"][0]["name"] == "demo__add"
    assert (unfit[0], "One of these changes is enough: " in unfit[2]) == (1, True)
    assert (neither[0], "--model" in neither[2]) == (2, True)


async def test_without_a_gateway_the_sentence_says_how_to_start_one() -> None:
    code, _, err = await fairlead("tools", "--format", "mcp", "--url", f"http://127.0.0.1:{free_port()}/mcp")
    assert (code, "fairlead up" in err, "Traceback" in err) == (1, True, False)


async def test_a_model_whose_window_is_not_known_is_answered_with_the_near_one(tmp_path: Path) -> None:
    async with running(tmp_path, DEMO) as gateway:
        url = f"http://127.0.0.1:{gateway.port}/mcp"
        _, guessed, _ = await fairlead("plan", "--model", "gpt5", "--url", url)
        _, planned, _ = await fairlead("plan", "--model", "gpt-5", "--url", url)
    assert "set it in `models` of a --routes file; did you mean gpt-5?" in guessed
    assert "did you mean" not in planned


async def test_https_to_a_gateway_without_tls_is_answered_with_http(tmp_path: Path) -> None:
    async with running(tmp_path, DEMO) as gateway:
        for verb in ("servers", "tools"):
            code, _, err = await fairlead(verb, "--url", f"https://127.0.0.1:{gateway.port}/mcp")
            assert (code, "http:// instead of https://" in err, err.count("\n")) == (1, True, 1), verb
            assert "WRONG_VERSION" not in err
