"""Commands that are forked from one interpreter, compared with the same commands in interpreters of their own."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import forkserver
from commands import fairlead
from ports import free_port

TOOLS = '[{"name": "add", "description": "Adds.", "inputSchema": {"type": "object"}}]'


async def both(
    monkeypatch: pytest.MonkeyPatch, *words: str, stdin: str = "", **environment: str
) -> tuple[int, str, str]:
    """Run a command in both ways, and assert equal outcomes. Returns exit code, output and errors."""
    before = forkserver.spent_s
    forked = await fairlead(*words, stdin=stdin, **environment)
    assert forkserver.spent_s > before
    spent = forkserver.spent_s
    with monkeypatch.context() as context:
        context.setenv("FAIRLEAD_TEST_NIGHTLY", "yes")
        assert await fairlead(*words, stdin=stdin, **environment) == forked
    assert forkserver.spent_s == spent
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
