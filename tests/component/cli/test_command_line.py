"""Common parts of all verbs of the command line: `--json`, the form of errors, exit codes, completion."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from commands import fairlead, program_in
from fairlead_cli.tree import tree
from ports import free_port

pytestmark = pytest.mark.timeout(240)  # each command starts an interpreter
VERBS = dict(tree().verbs())
PRINT_NO_RESULT = {"operator", "gateway", "completion", "migrate", "bridge"}
"""Verbs that log until a signal, print a script or manifests, or speak MCP."""
WRITE_AN_ADDRESS = {"client setup"}
_LOADED = (
    "import atexit, sys; atexit.register(lambda: print(sorted({'httpx2', 'httpcore2', 'textual'} & set(sys.modules)), "
    "file=sys.stderr))"
)


def option_names(verb: str) -> set[str]:
    return {option for param in VERBS[verb].params for option in param.opts}


def test_every_verb_that_prints_a_result_prints_it_as_json() -> None:
    assert {verb for verb in VERBS if "--json" not in option_names(verb)} == PRINT_NO_RESULT


def test_every_verb_that_asks_a_gateway_takes_a_token() -> None:
    asking = [verb for verb in VERBS if "--url" in option_names(verb) and verb not in WRITE_AN_ADDRESS]
    assert [verb for verb in asking if "--token" not in option_names(verb)] == []


async def test_json_may_be_asked_for_in_the_old_way() -> None:
    new, *others = [await fairlead("version", *words) for words in (("--json",), ("--output", "json"), ("-o", "json"))]
    assert others == [new, new]
    assert json.loads(new[1])["fairlead"]


async def test_the_version_is_an_option_too() -> None:
    for option in ("--version", "-V"):
        code, out, err = await fairlead(option)
        assert (code, err) == (0, "")
        assert out == (await fairlead("version"))[1]


@pytest.mark.parametrize(
    ("words", "verb"),
    [
        (["fly"], "fairlead"),
        (["call"], "fairlead call"),
        (["tools", "--tear", "fast"], "fairlead tools"),
        (["up", "--port", "99999"], "fairlead up"),
        (["keys", "create"], "fairlead keys create"),
        (["keys", "crate", "x"], "fairlead keys"),
        (["keys", "revoke", "x", "--file", "/nonexistent"], "fairlead keys revoke"),
        (["tools", "--url", "nonsense"], "fairlead tools"),
        (["scores", "--url", "ftp://x/mcp"], "fairlead scores"),
        (["call", "x", "a=1", "--arguments", "{}"], "fairlead call"),
        (["tools", "--header", "Host: x"], "fairlead tools"),
    ],
)
async def test_a_wrong_use_is_one_line_that_begins_with_the_verb(words: list[str], verb: str) -> None:
    code, out, err = await fairlead(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"{verb}: ")


async def test_the_flag_of_a_verb_that_is_written_as_a_verb_is_suggested() -> None:
    code, _, err = await fairlead("client", "undo", "cursor")
    assert code == 2
    assert err.startswith(
        "fairlead client: no such command 'undo'. Did you mean `fairlead client setup CLIENT --undo`? "
    )


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (["undo"], ["fairlead client setup CLIENT --undo"]),
        (["client", "url"], []),  # this option takes a value
        (["json"], []),  # too many verbs have this option
        (["client", "setup", "undo"], []),
        (["client"], []),
    ],
)
def test_flags_of_few_verbs_alone_are_suggested(words: list[str], flags: list[str]) -> None:
    assert tree().flags_named_by(words) == flags


@pytest.mark.parametrize(
    "words",
    [
        ["tools"],
        ["call", "x"],
        ["tiers"],
        ["scores"],
        ["leaderboard"],
        ["events"],
        ["explain", "x"],
        ["top", "--once"],
        ["refresh", "x"],
        ["predict", "x"],
        ["plan", "--model", "x"],
        ["can", "me", "call", "x"],
        ["telemetry", "show"],
        ["tools", "--server", "plain"],
        ["tools", "--format", "mcp"],
    ],
)
async def test_without_a_gateway_every_verb_says_the_same(words: list[str]) -> None:
    code, out, err = await fairlead(*words, "--url", f"http://127.0.0.1:{free_port()}/mcp")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "fairlead up" in err
    assert "--url" in err


async def test_a_fault_is_a_sentence_and_its_traceback_is_to_be_had() -> None:
    broken = "import fairlead_cli.about as a; a.run_version = lambda output: 1 / 0"
    code, _, err = await fairlead("version", code=broken)
    assert (code, err.count("\n"), "Traceback" in err) == (1, 1, False)
    assert err.startswith("fairlead version: internal error: ZeroDivisionError")
    assert "Traceback" in (await fairlead("version", code=broken, FAIRLEAD_TRACEBACK="1"))[2]


@pytest.mark.parametrize("words", [["crds"], ["version"], ["--help"], ["keys"], ["tools", "--help"], ["keys", "list"]])
def test_a_reader_that_goes_away_ends_a_verb_in_silence(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text('{"keys": []}')
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "fairlead_cli", *words]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, cwd=tmp_path, timeout=60, check=False)
    os.close(writing)
    assert (done.returncode in (141, -signal.SIGPIPE), done.stderr) == (True, b"")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let child processes react to SIGINT, also if the tests are a script's background job, which ignores SIGINT and
        passes
    this on to its children.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("verb", ["tools", "tiers"])
async def test_ctrl_c_ends_a_verb_in_silence(verb: str) -> None:
    requested = asyncio.Event()
    ended = asyncio.Event()

    async def silent(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requested.set()
        await ended.wait()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "fairlead_cli",
        verb,
        "--url",
        f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(60):
            await requested.wait()
            process.send_signal(signal.SIGINT)
            _, err = await process.communicate()
        assert (process.returncode, err) == (130, b"")
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
        ended.set()
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize(
    "words", [["version"], ["--version"], ["--help"], ["tools", "--help"], ["top", "--help"], ["crds"]]
)
async def test_verbs_without_http_load_no_http_client(words: list[str]) -> None:
    assert (await fairlead(*words, code=_LOADED))[2] == "[]\n"


async def test_verbs_that_ask_a_gateway_load_an_http_client() -> None:
    url = f"http://127.0.0.1:{free_port()}/mcp"
    assert "httpx2" in (await fairlead("tiers", "--url", url, code=_LOADED))[2], "the tests look for the right name"


async def test_verbs_without_a_screen_load_no_library_for_screens() -> None:
    words = ["top", "--once", "--url", f"http://127.0.0.1:{free_port()}/mcp"]
    assert "textual" not in (await fairlead(*words, code=_LOADED))[2]
    assert "textual" in (await fairlead(*words, code=f"{_LOADED}; import fairlead_cli.top.application"))[2]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
async def test_a_shell_is_told_how_to_complete(shell: str) -> None:
    code, out, err = await fairlead("completion", shell)
    assert (code, err, f"complete_{shell}" in out) == (0, "", True)


async def test_another_shell_is_refused_with_those_there_are() -> None:
    code, _, err = await fairlead("completion", "csh")
    assert (code, "'csh' is not one of 'bash', 'zsh', 'fish'" in err) == (2, True)


def test_bash_completes_verbs_and_options_by_that_script(tmp_path: Path) -> None:
    program_in(tmp_path)
    program = (
        "eval \"$(fairlead completion bash)\"; for line in 'expl' 'keys re' 'tools --js'; do "
        "COMP_WORDS=(fairlead $line); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _fairlead_completion fairlead; "
        'echo "${COMPREPLY[@]}"; done'
    )
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", program], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout.split(), done.stderr) == (["explain", "revoke", "--json"], "")


async def test_a_shell_need_not_be_named_where_the_environment_names_it() -> None:
    assert await fairlead("completion", SHELL="/usr/bin/zsh") == await fairlead("completion", "zsh")
    for variables in ({"SHELL": "/bin/dash"}, {"SHELL": ""}):
        code, _, err = await fairlead("completion", **variables)
        assert (code, "fairlead completion bash, zsh or fish" in err, err.count("\n")) == (2, True, 1)


async def test_tool_servers_are_listed_where_nothing_can_run_them() -> None:
    blocked = "import sys; sys.modules['mcp'] = None"
    code, out, err = await fairlead("serve", code=blocked)
    assert (code, "dice-roller" in out, "[servers]'" in err) == (0, True, True)
    code, out, _ = await fairlead("serve", "--json", code=blocked)
    assert (code, {"name", "summary"} == json.loads(out)["servers"][0].keys()) == (0, True)
    assert (await fairlead("serve", "dice-roller", code=blocked))[0] == 1
    assert (await fairlead("serve", "dice-roler"))[0] == 2


@pytest.mark.parametrize(("name", "near"), [("dice", "dice-roller"), ("memry", "memory"), ("rules", "rules-lookup")])
async def test_a_wrong_name_of_a_tool_server_is_answered_with_the_near_one(name: str, near: str) -> None:
    code, _, err = await fairlead("serve", name)
    assert code == 2
    assert f"'{name}' is not a bundled server. Did you mean {near}? Servers: dice-roller, " in err
