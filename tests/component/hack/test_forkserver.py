"""Commands that are forked from one interpreter, compared with the same commands in interpreters of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import forkserver
from commands import fairlead
from gatewayprocess import interpreted, started
from ports import free_port
from upprocess import all_dead, command_of

TOOLS = '[{"name": "add", "description": "Adds.", "inputSchema": {"type": "object"}}]'


async def both(
    monkeypatch: pytest.MonkeyPatch, *words: str, stdin: str = "", **environment: str
) -> tuple[int, str, str]:
    """Run a command in both ways, and assert equal outcomes. Returns exit code, output and errors."""
    before = forkserver.processor_s()
    forked = await fairlead(*words, stdin=stdin, **environment)
    assert forkserver.processor_s() > before
    spent = forkserver.processor_s()
    with monkeypatch.context() as context:
        context.setenv("FAIRLEAD_TEST_NIGHTLY", "yes")
        assert await fairlead(*words, stdin=stdin, **environment) == forked
    assert forkserver.processor_s() == spent
    return forked


@pytest.mark.both_loops
async def test_a_forked_command_ends_as_one_in_an_interpreter_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("FAIRLEAD_TEST_NIGHTLY", raising=False)
    monkeypatch.chdir(tmp_path)
    if not forkserver.can_fork(os.environ):
        pytest.skip("coverage is measured: each command is an interpreter")
    url = f"http://127.0.0.1:{free_port()}/mcp"
    assert (await both(monkeypatch, "version"))[0] == 0
    assert (await both(monkeypatch, "fly"))[0] == 2
    assert (await both(monkeypatch, "tools", "--help", COLUMNS="60"))[0] == 0
    code, _, err = await both(monkeypatch, "tools", FAIRLEAD_URL=url)
    assert (code, url in err) == (1, True), "its environment is its own"
    (tmp_path / "tools.json").write_text(TOOLS)
    words = ("convert", "--from", "mcp", "--to", "openai")
    code, read, _ = await both(monkeypatch, *words, "tools.json")
    assert (code, '"add"' in read) == (0, True), "its folder is that of its caller"
    assert (await both(monkeypatch, *words, "-", stdin=TOOLS))[:2] == (0, read)


async def test_a_forked_process_ends_by_signals_with_their_codes(tmp_path: Path) -> None:
    if not forkserver.can_fork(os.environ):
        pytest.skip("by night and with coverage each command is an interpreter")
    words = ("up", "--port", "0", "--metrics-port", "0", "--output", "json")
    for number, code in ((signal.SIGINT, 0), (signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)):
        process = await forkserver.fork_command(*words, str(tmp_path), cwd=tmp_path, env=os.environ)
        assert process.stdout is not None
        while b'"listening"' not in (line := await process.stdout.readline()):
            assert line
        process.send_signal(number)
        await process.communicate()
        assert await process.wait() == code
        with pytest.raises(ProcessLookupError):
            process.kill()


def test_variables_that_an_interpreter_reads_at_its_start_get_an_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAIRLEAD_TEST_NIGHTLY", raising=False)
    for variables in (
        {"PYTHONUTF8": "0"},
        {"LC_ALL": "C"},
        {"COVERAGE_PROCESS_START": "x"},
        {"FAIRLEAD_UNGUARDED": "x"},
    ):
        assert not forkserver.can_fork({**os.environ, **variables})


SLEEPS = "import os, time; print(os.getpid(), os.environ['WORD'], flush=True); time.sleep(600)"


@contextmanager
def sleeping(folder: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A forked script that sleeps: the program that stands for it, and its own process id."""
    script = folder / "sleeps.py"
    script.write_text(SLEEPS)
    command = [*forkserver.FORKED, str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "WORD": "given"}) as program:
        assert program.stdout is not None
        pid, word = program.stdout.readline().split()
        assert word == "given", "its environment is its own"
        try:
            yield program, int(pid)
        finally:
            program.kill()


@pytest.fixture
def forking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAIRLEAD_TEST_NIGHTLY", raising=False)
    if not forkserver.can_fork(os.environ):
        pytest.skip("coverage is measured: each command is an interpreter")


@pytest.mark.usefixtures("forking")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
async def test_a_signal_to_a_program_ends_the_process_that_was_forked_for_it(
    number: signal.Signals, tmp_path: Path
) -> None:
    if number != signal.SIGKILL and signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("these tests run under nohup, which has the signal ignored by all processes")
    with sleeping(tmp_path) as (program, pid):
        assert pid != program.pid
        program.send_signal(number)
        assert program.wait() == -number
    assert await all_dead([pid], within=20) == []


@pytest.mark.usefixtures("forking")
async def test_a_process_that_was_forked_for_a_program_ends_it_by_its_own_end(tmp_path: Path) -> None:
    with sleeping(tmp_path) as (program, pid):
        os.kill(pid, signal.SIGKILL)
        assert program.wait() == -signal.SIGKILL


@pytest.mark.usefixtures("forking")
def test_a_forked_program_ends_as_an_interpreter_does_and_its_time_is_counted() -> None:
    before_s = forkserver.processor_s()
    interpreter = [sys.executable, "-m", "fairlead_cli"]
    for words, code in ((["version"], 0), (["fly"], 2)):
        forked, own = (
            subprocess.run([*command, *words], capture_output=True, text=True, check=False)
            for command in (forkserver.FORKED, interpreter)
        )
        assert (forked.returncode, forked.stdout, forked.stderr) == (code, own.stdout, own.stderr)
    assert forkserver.processor_s() > before_s


@pytest.mark.usefixtures("forking")
def test_a_program_whose_environment_an_interpreter_reads_at_its_start_becomes_an_interpreter(tmp_path: Path) -> None:
    script = tmp_path / "is_utf8.py"
    script.write_text("import os, sys; print(sys.flags.utf8_mode, os.getpid())")
    environment = {**os.environ, "PYTHONUTF8": "1"}
    with subprocess.Popen([*forkserver.FORKED, str(script)], stdout=subprocess.PIPE, text=True, env=environment) as ran:
        assert ran.communicate()[0].split() == ["1", str(ran.pid)]


_BUILT = """
import gc, fairlead_cli.tree
from fairlead_api.v1alpha1.mcpserver import McpServer
gc.unfreeze()
frozen = [gc.get_freeze_count() > 100_000]
gc.unfreeze()
frozen += [gc.get_freeze_count() > 100_000]
print(fairlead_cli.tree.tree() is fairlead_cli.tree.tree(), McpServer.__pydantic_complete__, *frozen)
"""


@pytest.mark.usefixtures("forking")
def test_a_forked_program_builds_nothing_again_and_first_collects_what_is_its_own(tmp_path: Path) -> None:
    script = tmp_path / "built.py"
    script.write_text(_BUILT)
    printed = subprocess.run([*forkserver.FORKED, str(script)], capture_output=True, text=True, check=True).stdout
    assert printed.split() == ["True", "True", "True", "False"]


@pytest.mark.usefixtures("forking")
async def test_a_gateway_is_forked_unless_a_test_asks_for_an_interpreter(tmp_path: Path) -> None:
    for start, is_forked in ((started, True), (interpreted, False)):
        async with start(FAIRLEAD_DOCUMENTS=str(tmp_path)) as gateway:
            await gateway.line("MCP on http://")
            assert ("forkserver.py" in command_of(gateway.process.pid)) == is_forked
