"""Unusable entries of an `mcp.json`, in every place that shows servers."""

from __future__ import annotations

import asyncio
import html
import json
import signal
from pathlib import Path
from typing import Any

import httpx

from commands import fairlead
from forkserver import program_words
from upprocess import PLAIN, fairlead_up, manifest, until_listed
from waiting import until_async

UNSET = "FAIRLEAD_TEST_UNSET"
WHY = f"mcpServers.mail.env.MAIL_TOKEN: environment variable {UNSET} is not set"
REMEDY = "Set the variable in the environment of fairlead up, and start the command again."


def mail_beside_a_good_server(folder: Path, **more: Any) -> Path:
    mail = {"command": PLAIN[0], "args": PLAIN[1:], "env": {"MAIL_TOKEN": f"${{{UNSET}}}"}}
    good = {"command": PLAIN[0], "args": PLAIN[1:]}
    file = folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"good": good, "mail": mail, **more}}))
    return file


async def test_a_server_refused_for_an_unset_variable_is_shown_failed_by_commands_and_rest(tmp_path: Path) -> None:
    async with fairlead_up(mail_beside_a_good_server(tmp_path), cwd=tmp_path) as up:
        await up.ready("default/good")
        code, out, _ = await fairlead("servers", "mail", "--url", up.url)
        top, rows, _ = await fairlead("top", "--once", "--url", up.url)
        async with httpx.AsyncClient(base_url=up.url.removesuffix("/mcp")) as client:
            answer = (await client.get("/v1/servers/mail")).json()
        tools, _, err = await fairlead("tools", "--url", up.url)
    assert code == 0
    assert "failed" in out
    assert "VariableNotSet" in out
    assert WHY in out
    assert REMEDY in out
    assert (answer["state"], answer["reason"], answer["cause"]) == ("failed", "InvalidRef", "VariableNotSet")
    assert WHY in answer["message"]
    assert top == 0
    assert "mail" in rows
    assert tools == 0, err


async def test_a_call_of_a_refused_server_names_the_variable_and_guesses_no_other_tool(tmp_path: Path) -> None:
    async with fairlead_up(mail_beside_a_good_server(tmp_path), cwd=tmp_path) as up:
        await up.ready("default/good")
        code, _, err = await fairlead("call", "mail__ask", "--url", up.url)
        shown, _, untold = await fairlead("tools", "mail__ask", "--url", up.url)
        exit_code, _, refreshed = await fairlead("refresh", "mail", "--url", up.url)
        logged, _, printed = await fairlead("logs", "mail", "--url", up.url)
    assert code == 1
    assert f"environment variable {UNSET} is not set" in err
    assert "did you mean" not in err.lower()
    assert shown == 1
    assert "did you mean" not in untold.lower()
    assert "VariableNotSet" in untold or UNSET in untold
    assert exit_code == 1
    assert UNSET in refreshed
    assert logged == 0
    assert "the gateway started no process of this server" in printed
    assert UNSET in printed


async def test_a_server_that_runs_as_it_was_declared_before_says_what_keeps_its_new_entry(tmp_path: Path) -> None:
    good = {"command": PLAIN[0], "args": PLAIN[1:]}
    file = mail_beside_a_good_server(tmp_path, mail=good, other=good)
    async with fairlead_up(file, cwd=tmp_path) as up:
        assert {*(await up.states(3)).values()} == {"ready:"}
        mail_beside_a_good_server(tmp_path)
        await up.event(lambda event: event["event"] == "gone" and event["server"] == "default/other")

        async def is_told() -> bool:
            _, out, _ = await fairlead("servers", "mail", "--url", up.url)
            return "default/mail runs as declared before" in out and UNSET in out and "ready" in out

        await until_async("the problem of the new entry", is_told)
        called, _, err = await fairlead("call", "mail__seen", "--url", up.url)
    assert called == 0, err


async def test_a_refused_manifest_and_a_misspelt_key_are_shown_failed_until_they_are_mended(tmp_path: Path) -> None:
    folder = tmp_path / "servers"
    folder.mkdir()
    mail_beside_a_good_server(folder, typo={"comand": "x"})
    (folder / "wrong.yaml").write_text(manifest("wrong", *PLAIN, sesion="Shared"))
    async with fairlead_up(folder, cwd=tmp_path) as up:
        await up.ready("default/good")
        _, out, _ = await fairlead("servers", "--url", up.url, "--output", "json")
        (folder / "wrong.yaml").write_text(manifest("wrong", *PLAIN))
        await up.ready("default/wrong")
        _, later, _ = await fairlead("servers", "wrong", "--url", up.url, "--output", "json")
    servers = {server["server"]: server for server in json.loads(out)["servers"]}
    assert {name: server["state"] for name, server in servers.items()} == {
        "default/good": "ready",
        "default/mail": "failed",
        "default/typo": "failed",
        "default/wrong": "failed",
    }
    assert "did you mean command? Correct the key in the file." in servers["default/typo"]["message"]
    assert "spec.sesion" in servers["default/wrong"]["message"]
    assert "Correct the field in the file." in servers["default/wrong"]["message"]
    assert json.loads(later)["state"] == "ready"


async def test_a_call_that_ends_its_server_keeps_what_the_gateway_says_of_the_call(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"good": {"command": PLAIN[0], "args": PLAIN[1:]}}}))
    async with fairlead_up(file, cwd=tmp_path) as up:
        await up.ready("default/good")
        code, _, err = await fairlead("call", "good__die", "--url", up.url)
    assert code == 1
    assert "CONNECTION_LOST: default/good exited with code 7: told to die" in err
    assert "not available" not in err


async def test_a_file_that_is_broken_as_a_whole_is_shown_everywhere_until_it_is_mended(tmp_path: Path) -> None:
    broken = mail_beside_a_good_server(tmp_path)
    rootless = tmp_path / "list.json"
    rootless.write_text("[1, 2]")
    async with fairlead_up(broken, rootless, cwd=tmp_path) as up:
        await up.ready("default/good")
        broken.write_text('{"mcpServers": {\n  "good": {"command": "x" "args": []}}}')
        why = f"{broken}:2:27: not valid JSON: a comma or }} is missing before"
        runs_on = "good keeps running as declared before"

        async def is_shown() -> bool:
            return why in (await fairlead("servers", "--url", up.url))[1]

        await until_async("the problem of the file", is_shown)
        _, out, _ = await fairlead("servers", "--url", up.url)
        async with httpx.AsyncClient(base_url=up.url.removesuffix("/mcp")) as client:
            answer = (await client.get("/v1/servers")).json()
            (console,) = [event["console"] for event in up.events if event["event"] == "listening"]
            page = html.unescape((await client.get(console, follow_redirects=True)).text)
        await events_until(up.url, "default/mail failed (VariableNotSet)", f"rejected {why}")
        mail_beside_a_good_server(tmp_path)
        rootless.write_text('{"mcpServers": {"other": {"command": "no-such-program"}}}')
        await up.event(lambda event: event.get("server") == "default/other" and event.get("state") == "failed")

        async def is_gone() -> bool:
            return "problem:" not in (await fairlead("servers", "--url", up.url))[1]

        await until_async("the end of the problems", is_gone)
        await events_until(up.url, f"accepted {broken}", "default/other failed (CommandNotFound)")
    assert runs_on in out
    assert f"{rootless}: declares no server" in out
    assert "good" in out.split("problem:")[0]
    assert {each["file"] for each in answer["fileProblems"]} == {str(broken), str(rootless)}
    for text in (page, *(each["message"] for each in answer["fileProblems"] if each["file"] == str(broken))):
        assert why in text
        assert runs_on in text


async def test_events_say_at_once_what_they_are_connected_to_and_print_the_last_ones(tmp_path: Path) -> None:
    async with fairlead_up(mail_beside_a_good_server(tmp_path), cwd=tmp_path) as up:
        await up.ready("default/good")
        await until_listed(up.url, "good")
        process = await follow_events(up.url, "--tail", "0")
        first = await line_of(process.stderr)
        await interrupt(process)
        lines = await events_until(up.url, "default/good connected")
        as_json = await follow_events(up.url, "--tail", "1", "--json")
        opened, last = [json.loads(await line_of(as_json.stdout)) for _ in range(2)]
        errors = await interrupt(as_json)
    assert first == f"fairlead events: connected to {up.url}; waiting for events, Ctrl-C ends the command"
    assert lines[0] == "default/mail failed (VariableNotSet)"
    assert (opened["type"], last["type"]) == ("stream.opened", "server.connected")
    assert errors == ""


async def follow_events(url: str, *words: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    command = [*program_words(), "events", "--url", url, *words]
    return await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)


async def line_of(stream: asyncio.StreamReader | None) -> str:
    assert stream is not None
    async with asyncio.timeout(30):
        return (await stream.readline()).decode().rstrip()


async def interrupt(process: asyncio.subprocess.Process) -> str:
    """Interrupt the process. Returns the rest of its standard error."""
    process.send_signal(signal.SIGINT)
    _, errors = await process.communicate()
    assert process.returncode == 130
    return errors.decode()


async def events_until(url: str, *wanted: str) -> list[str]:
    """Read the lines of `fairlead events`, without times, until all of `wanted` are among them."""
    process = await follow_events(url)
    lines: list[str] = []
    while not all(any(line.startswith(text) for line in lines) for text in wanted):
        lines.append((await line_of(process.stdout)).partition(" ")[2])
    await interrupt(process)
    return lines
