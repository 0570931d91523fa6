"""`fairlead up` in a terminal of its own: the content of its screen, also after the window changes its size."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import re
import signal
import struct
import sys
import termios
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from consentservers import FormBrowser, consent_server
from upprocess import DEMO, started_up
from waiting import eventually, until_async

MOVES = re.compile(r"\x1b\[(\d*)([A-Za-z])|\x1b\[\?\d+[hl]|\x1b\[[\d;]*m")


class Terminal:
    """A terminal with the commands that rich uses: lines, cursor up, clear line, clear all."""

    def __init__(self, controller: int, width: int, height: int) -> None:
        self._controller = controller
        self.was_canonical = False
        """`canonical` at the end."""
        self._bytes = b""
        self.resize(width, height)

    def resize(self, width: int, height: int) -> None:
        self.width = width
        self.height = height
        fcntl.ioctl(self._controller, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def read(self) -> None:
        with contextlib.suppress(OSError):  # no process has the terminal open any more
            self._bytes += os.read(self._controller, 65536)

    @property
    def raw(self) -> bytes:
        """All output so far."""
        return self._bytes

    def press(self, keys: str) -> None:
        os.write(self._controller, keys.encode())

    def forget(self) -> None:
        """Discard the output so far."""
        self._bytes = b""

    @property
    def canonical(self) -> bool:
        """Whether the terminal is in canonical mode: input by lines, with echo."""
        modes = termios.tcgetattr(self._controller)[3]
        return bool(modes & termios.ICANON and modes & termios.ECHO)

    async def until_raw(self, *wanted: bytes) -> None:
        async def there() -> bool:
            return all(each in self._bytes for each in wanted)

        await until_async(f"{wanted} in {self._bytes[-2000:]!r}", there, seconds=40)

    @property
    def rows(self) -> list[str]:
        """Text of all rows, also of those above the window."""
        rows = [""]
        row = 0
        at = 0
        text = self._bytes.decode(errors="ignore").replace("\r\n", "\n")
        while at < len(text):
            if move := MOVES.match(text, at):
                at = move.end()
                count = int(move[1] or 1)
                kind = move[2]
                if kind == "A":
                    row = max(0, row - count)
                elif kind == "J":
                    rows = [""]
                    row = 0
                elif kind == "K":
                    rows[row] = ""
                continue
            if text[at] == "\n":
                row += 1
                rows += [""] * (row + 1 - len(rows))
            elif text[at] != "\r":
                rows[row] += text[at]
            at += 1
        return rows

    @property
    def text(self) -> str:
        return "\n".join(self.rows)


@asynccontextmanager
async def terminal(
    cwd: Path, *words: str, width: int = 80, height: int = 24, env: Mapping[str, str] | None = None
) -> AsyncIterator[Terminal]:
    controller, inside = os.openpty()
    shown = Terminal(controller, width, height)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "fairlead_cli",
        "up",
        *words,
        "--port",
        "0",
        "--metrics-port",
        "0",
        stdin=inside,
        stdout=inside,
        stderr=inside,
        cwd=cwd,
        start_new_session=True,
        # as readline sets it
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24", **(env or {})},
    )
    os.close(inside)
    loop = asyncio.get_running_loop()
    loop.add_reader(controller, shown.read)
    try:
        yield shown
    finally:
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(30):
            await process.wait()
        shown.was_canonical = shown.canonical
        loop.remove_reader(controller)
        os.close(controller)


async def wait_for_words(shown: Terminal, *words: str) -> None:
    async def there() -> bool:
        return all(word in shown.text for word in words)

    await until_async(f"{words} on {shown.text}", there, seconds=40)


def configuration(folder: Path, names: Iterable[str]) -> None:
    servers: dict[str, object] = {name: {"command": DEMO[0], "args": DEMO[1:]} for name in names}
    servers["absent"] = {"command": "no-such-program"}
    servers["typo"] = {"comand": "npx"}
    words = "import sys; sys.stderr.write('\\x1b[2J\\x1b]0;owned\\x07 last 日本語 words\\n'); sys.exit(3)"
    servers["crashing"] = {"command": sys.executable, "args": ["-c", words]}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))


async def test_a_window_shows_problems_on_top_and_follows_its_size(tmp_path: Path) -> None:
    configuration(tmp_path, ("one", "two"))
    async with terminal(tmp_path, "mcp.json") as shown:
        await wait_for_words(shown, "5 servers: 3 failed, 2 ready; 8 tools", "last 日本語 words", "restart")
        lines = [line.rstrip() for line in shown.rows]
        assert lines[1].startswith("problem: mcp.json:1: mcpServers.typo.comand: unknown key: did you mean")
        assert [line.split()[0] for line in lines if re.match(r"\w+ +failed", line)] == ["absent", "crashing"]
        assert len(lines) <= 24
        assert "\x1b]0;" not in shown.text
        shown.resize(60, 12)
        await wait_for_words(shown, "more lines in a taller window")
        assert len(shown.rows) <= 12
        assert "demo__" not in shown.text
        shown.resize(200, 50)
        await wait_for_words(shown, "one__ask_supplier", "claude mcp add")


async def test_without_a_terminal_there_are_lines(tmp_path: Path) -> None:
    configuration(tmp_path, ("one",))
    environment = {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
    async with started_up("mcp.json", "--port", "0", "--metrics-port", "0", cwd=tmp_path, env=environment) as up:
        assert up.process.stdout is not None
        async with asyncio.timeout(40):
            while b"one  ready, 4 tools (one__ask_supplier" not in (line := await up.process.stdout.readline()):
                assert re.match(rb"\d\d:\d\d:\d\d  ", line)
                assert b"\x1b" not in line


async def test_the_key_t_opens_top_in_the_same_terminal_and_q_returns(tmp_path: Path) -> None:
    configuration(tmp_path, ("one",))
    async with terminal(tmp_path, "mcp.json", width=120, height=40) as shown:
        await wait_for_words(shown, "t opens `fairlead top` here", "4 servers: 3 failed, 1 ready")
        assert not shown.canonical
        shown.press("xt")
        await shown.until_raw(b"\x1b[?1049h", b"CALLS/MIN")
        shown.press("q")
        await shown.until_raw(b"\x1b[?1049l")
        shown.forget()
        await wait_for_words(shown, "t opens `fairlead top` here", "4 servers: 3 failed, 1 ready")
        assert not shown.canonical
    assert shown.was_canonical


async def test_a_stop_while_top_is_open_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    configuration(tmp_path, ())
    async with terminal(tmp_path, "mcp.json", width=120, height=40) as shown:
        await wait_for_words(shown, "t opens `fairlead top` here")
        shown.press("t")
        await shown.until_raw(b"\x1b[?1049h", b"CALLS/MIN")
    assert shown.was_canonical
    assert b"\x1b[?1049l" in shown.raw


async def test_key_opens_the_page_at_which_a_server_wants_its_user_to_sign_in(tmp_path: Path) -> None:
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}.part && mv {opened}.part {opened}\n')
    browser.chmod(0o755)
    async with consent_server("linear") as server:
        (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"linear": {"url": server.url}}}))
        environment = {"BROWSER": str(browser), "XDG_STATE_HOME": str(tmp_path / "state")}
        async with terminal(tmp_path, "mcp.json", env=environment, height=40) as shown, FormBrowser() as person:
            await wait_for_words(shown, "linear wants you to sign in: press l")
            shown.press("l")
            await eventually(opened.exists)
            page = await person.sign_in(opened.read_text().strip())
            assert page.status == 200, page.text
            await wait_for_words(shown, "ready, 1 tool")
            assert "sign in" not in shown.text
