"""Whatever is wrong, every verb ends with the exit code of docs/reference/cli.md and a message of one line."""

from __future__ import annotations

import asyncio
import errno
import functools
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from importlib.metadata import distribution, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from commands import fairlead
from fairlead_cli import __main__
from fairlead_cli.tree import tree
from forkserver import can_fork
from ports import free_port
from upprocess import PLAIN, fairlead_up

COMMAND = tree()
VERBS = dict(COMMAND.verbs())
VALUES = {
    "agent": "me",
    "call": "call",
    "tool": "plain__echo",
    "tools": "plain__echo",
    "words": "echo",
    "server": "plain",
    "ident": "0123456789ab",
    "name_of_client": "cursor",
}
"""A value for each required argument of a verb, except files."""
OPTIONS = {"plan": ("--model", "gpt-5-mini"), "convert": ("--from", "mcp", "--to", "openai")}
"""Options without which a verb does nothing."""
SCREEN = {"top": ("--once",)}
TROUBLE = re.compile(r"[?!][.;,:]|(?<!\.)\.\.(?!\.)|\.[;:]|(?<!')\bSERVER\b|Traceback|a fault of Fairlead")
"""Pattern of faulty messages: doubled punctuation, placeholders, and internal errors."""
FORWARD = {"up", "operator", "gateway", "serve", "bridge"}
"""Verbs that serve until they are ended."""


@pytest.fixture(autouse=True)
def command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all commands in this process use one command line: to build it takes 65 ms, and there are hundreds."""
    monkeypatch.setattr("fairlead_cli.tree.tree", lambda: COMMAND)


def option_names(verb: str) -> set[str]:
    return {option for param in VERBS[verb].params for option in param.opts}


ASKING = sorted(verb for verb in VERBS if {"--url", "--token"} <= option_names(verb) and verb not in FORWARD)
"""Verbs that send requests to a gateway."""


def arguments(verb: str, folder: Path, **others: str) -> list[str]:
    """Arguments and options that a verb requires."""
    words = [*OPTIONS.get(verb, ()), *SCREEN.get(verb, ())]
    for param in VERBS[verb].params:
        if not param.required or param.name in ("source", "target"):
            continue
        value = others.get(param.name or "") or VALUES.get(param.name or "") or str(folder / "given-file")
        words += [value] if param.param_type_name == "argument" else [param.opts[0], value]
    return words


def run_command(*words: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command in this process."""
    out = io.StringIO()
    err = io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = __main__._run(words)
    return code, out.getvalue(), err.getvalue()


def wrong(code: int, err: str, expected: int) -> str | None:
    """Fault in the outcome of a failed command; None if the outcome is as promised."""
    if code != expected:
        return f"ended with {code}: {err}"
    if err.count("\n") != 1:
        return f"is not one line: {err}"
    return f"reads badly: {err}" if TROUBLE.search(err) else None


async def faults(expected: int, calls: dict[str, list[str]], says: str = "") -> dict[str, str]:
    """Verbs whose outcome is not as expected, and the outcome."""
    codes = {}
    for verb, words in calls.items():
        code, _, err = await asyncio.to_thread(run_command, *verb.split(), *words)
        if fault := wrong(code, err, expected) or (f"does not say {says}: {err}" if says not in err else None):
            codes[verb] = fault
    return codes


def test_every_verb_that_asks_a_gateway_is_among_those_that_are_tried() -> None:
    assert len(ASKING) > 20
    assert {"approve", "diff", "keys create", "keys list", "keys revoke"} <= set(ASKING)


async def test_a_gateway_that_does_not_run_is_a_failure(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}/mcp"
    calls = {verb: [*arguments(verb, tmp_path), "--url", url] for verb in ASKING if verb != "telemetry export"}
    assert await faults(1, calls, "fairlead up") == {}


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("127.0.0.1:8080", "--url http://127.0.0.1:8080/mcp"),
        ("tools.example.com/x", "--url https://tools.example.com/x"),
    ],
)
async def test_a_url_without_a_scheme_is_a_wrong_use_that_says_what_was_meant(
    url: str, says: str, tmp_path: Path
) -> None:
    asking = [*ASKING, "client setup"]
    assert await faults(2, {verb: [*arguments(verb, tmp_path), "--url", url] for verb in asking}, says) == {}


async def test_the_url_of_a_bridge_without_a_scheme_is_told_once_with_the_command_to_paste() -> None:
    code, _, err = await asyncio.to_thread(run_command, "bridge", "127.0.0.1:8080")
    sentence = "URL: '127.0.0.1:8080' must start with http:// or https://: fairlead bridge http://127.0.0.1:8080/mcp"
    assert (code, err) == (2, f"fairlead bridge: {sentence}\n")


async def test_a_full_disk_ends_up_with_one_line_that_names_the_folder(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"a": {"command": "cat"}}}')
    state = tmp_path / "state"
    words = f"exec {sys.executable} -m fairlead_cli up mcp.json --port 0 --metrics-port 0 --state-dir {state}"
    process = await asyncio.create_subprocess_exec(
        "bash",
        "-c",
        f"ulimit -f 0; {words}",  # files cannot grow, as on a full disk
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    _, err = await process.communicate()
    line = err.decode()
    advice = "free space there, or choose another folder with --state-dir"
    assert line == f"fairlead up: {state} cannot be used: {os.strerror(errno.EFBIG)}; {advice}\n"
    assert process.returncode == 1


async def test_an_unknown_option_is_a_wrong_use(tmp_path: Path) -> None:
    calls = {verb: [*arguments(verb, tmp_path), "--nonsense"] for verb in VERBS}
    assert await faults(2, calls, "--help") == {}


async def test_an_argument_that_is_missing_is_a_wrong_use() -> None:
    needing = [verb for verb in VERBS if any(param.required for param in VERBS[verb].params)]
    assert len(needing) > 10
    assert await faults(2, {verb: [] for verb in needing}, "--help") == {}


@pytest.mark.parametrize("content", [None, "{ no JSON", "[1, 2]"], ids=["missing", "not readable", "of another kind"])
async def test_a_file_that_cannot_be_used_is_a_wrong_use(content: str | None, tmp_path: Path) -> None:
    file = tmp_path / "given-file"
    if content is not None:
        file.write_text(content)
    calls = {
        verb: arguments(verb, tmp_path)
        for verb in ("convert", "migrate", "ingest", "telemetry merge")
        if content is None or verb in ("convert", "ingest", "telemetry merge")
    }
    calls["telemetry show"] = [str(file)]
    calls["telemetry merge"] = [str(file), "--into", str(tmp_path / "new")]
    calls["plan"] = ["--model", "gpt-5", "--messages", str(file), "--url", f"http://127.0.0.1:{free_port()}/mcp"]
    if content is None:
        calls |= {"up": [str(file)], "tools": ["--token", f"@{file}"], "diff": ["x", "--state-dir", str(file)]}
        calls["approve"] = calls["diff"]
    else:
        calls |= {"keys list": ["--file", str(file)], "keys create": ["x", "--file", str(file)]}
        if content == "[1, 2]":
            del calls["plan"]  # this machine cannot tell that the list is not a conversation
            del calls["convert"]  # fails with a reason for each item
    assert await faults(2, calls, file.name) == {}


async def test_an_unknown_name_is_a_wrong_use_and_a_refusal_of_the_gateway_a_failure(tmp_path: Path) -> None:
    key = run_command("keys", "create", "me", "--group", "admins", "--file", str(tmp_path / "keys.json"))[1].strip()
    (tmp_path / "mcp.json").write_text(
        f'{{"mcpServers": {{"plain": {{"command": "{PLAIN[0]}", "args": ["{PLAIN[1]}"]}}}}}}'
    )
    env = {"FAIRLEAD_API_KEYS": str(tmp_path / "keys.json"), "FAIRLEAD_ADMIN_GROUPS": "admins"}
    async with fairlead_up(tmp_path / "mcp.json", cwd=tmp_path, env=env) as up:
        await up.ready("default/plain")
        reached = ["--url", up.url]
        refused = [*reached, "--token", "flk_0123456789ab_nonsense"]
        asking = [verb for verb in ASKING if verb != "telemetry export"]
        calls = {verb: [*arguments(verb, tmp_path), *refused] for verb in asking}
        assert await faults(1, calls, "--token") == {}

        options = [*reached, "--token", key]
        for name in ("tool", "tools", "server", "ident"):
            verbs = [verb for verb in ASKING if any(param.name == name for param in VERBS[verb].params)]
            assert verbs
            calls = {}
            for verb in verbs:
                optional = next(param for param in VERBS[verb].params if param.name == name)
                words = arguments(verb, tmp_path, **{name: "nonsense"})
                if not optional.required:
                    words += [optional.opts[0], "nonsense"] if optional.param_type_name == "option" else ["nonsense"]
                calls[verb] = [*words, *options]
            if name == "server":
                del calls["telemetry show"], calls["telemetry export"]  # a filter may match nothing
            assert await faults(2, calls, "nonsense" if name != "ident" else "") == {}

        tiered = [verb for verb in ASKING if "--tier" in option_names(verb)]
        assert {"tools", "call", "predict"} <= set(tiered)
        assert (
            await faults(2, {verb: [*arguments(verb, tmp_path), "--tier", "nonsense", *options] for verb in tiered})
            == {}
        )

        bare = ["--url", up.url.removesuffix("/mcp"), "--token", key]
        assert await faults(2, {verb: [*arguments(verb, tmp_path), *bare] for verb in ("tools", "call")}, up.url) == {}
        code, _, err = await asyncio.to_thread(run_command, "call", "plain__ech", *options)
        assert (code, f"`fairlead tools --url {up.url}` lists the tools" in err) == (2, True)


def base_packages() -> Iterator[str]:
    """Top-level modules of the packages in the base installation."""
    waiting = ["fairlead"]
    seen = set()
    while waiting:
        name = waiting.pop()
        if name.lower() in seen:
            continue
        seen.add(name.lower())
        for text in requires(name) or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    for name in seen:
        for file in distribution(name).files or ():
            yield file.parts[0].removesuffix(".py").partition(".")[0]


@functools.cache
def modules_of_extras() -> set[str]:
    """Modules of this environment that are not in the base installation."""
    have = {*base_packages(), *sys.stdlib_module_names}
    here = {path.name.partition(".")[0] for folder in sys.path for path in Path(folder).glob("*") if folder}
    return {name for name in here - have if not name.startswith(("fairlead", "_"))}


_LEAN = """
import gc, json, os, sys
sys.modules |= dict.fromkeys(json.loads(sys.argv[1]))
import httpx2, typer.main, fairlead_cli.calling.call, fairlead_cli.calling.tools
import fairlead_cli.tree
from fairlead_cli.__main__ import main
command = fairlead_cli.tree.tree()
fairlead_cli.tree.tree = lambda: command
gc.freeze()
for line in sys.stdin:
    words, folder = json.loads(line)
    if (pid := os.fork()) == 0:
        for stream, name in enumerate(("in", "out", "err")):
            os.dup2(os.open(f"{folder}/{name}", os.O_RDWR | os.O_CREAT), stream)
        os.environ["HOME"] = folder
        sys.argv = ["fairlead", *words]
        try:
            code = main()
        except SystemExit as end:
            code = end.code
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
"""Forks each command from an interpreter without the modules, which has imported what all commands import."""


class Lean:
    """Runs commands without the modules of extras."""

    def __init__(self) -> None:
        self._missing = sorted(modules_of_extras())
        self._forking: subprocess.Popen[str] | None = None

    async def run(self, *words: str, home: Path) -> tuple[int, str, str]:
        """Exit code, standard output and standard error of a command."""
        if not can_fork(os.environ):
            code = f"import sys; sys.modules |= dict.fromkeys({self._missing!r})"
            return await fairlead(*words, code=code, HOME=str(home), KUBECONFIG="/nonexistent")
        ended_with = await asyncio.to_thread(self._fork, json.dumps([words, str(home)]))
        return ended_with, (home / "out").read_text(), (home / "err").read_text()

    def _fork(self, request: str) -> int:
        if self._forking is None:
            self._forking = subprocess.Popen(
                [sys.executable, "-c", _LEAN, json.dumps(self._missing)],
                env={**os.environ, "KUBECONFIG": "/nonexistent"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self._forking.stdin is not None
        assert self._forking.stdout is not None
        self._forking.stdin.write(f"{request}\n")
        self._forking.stdin.flush()
        return int(self._forking.stdout.readline())

    def end(self) -> None:
        if self._forking is not None:
            self._forking.communicate()


@pytest.fixture(scope="module")
def lean() -> Iterator[Lean]:
    lean = Lean()
    yield lean
    lean.end()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("verb", sorted(set(VERBS) - {"completion", "version"}))
async def test_without_extras_a_verb_works_or_names_the_one_that_it_needs(
    verb: str, lean: Lean, tmp_path: Path
) -> None:
    assert {"mcp", "kopf", "uvicorn", "fastapi"} <= modules_of_extras()
    url = ["--url", f"http://127.0.0.1:{free_port()}/mcp"] if "--url" in option_names(verb) else []
    words = [*arguments(verb, tmp_path), *url, *(["--dry-run"] if verb == "client setup" else [])]
    ended_with, out, err = await lean.run(*verb.split(), *words, home=tmp_path)
    assert not TROUBLE.search(err.replace("…", "")), err
    if "needs the Python package" in err:
        assert re.search(r"pip install '[^']+\[[a-z-]+\]'", err)
        assert (ended_with == 0) == bool(out)
