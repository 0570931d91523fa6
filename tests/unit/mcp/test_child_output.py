"""A child process's output, end and silence, in virtual time and without processes."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Any

import pytest

from fairlead_mcp.child import Child
from fairlead_mcp.errors import ConnectFailed, HandshakeRefused
from fairlead_mcp.printed import PrintedLines
from fairlead_mcp.stdio import ChildSpec
from fairlead_mcp.stream_client import StreamState
from fakeprocesses import FakeLauncher, host_of, legacy, modern, mute, now, silent

pytestmark = [pytest.mark.looptime(start=0)]
SPEC = ChildSpec("server")


async def test_the_reason_of_a_start_that_failed_is_the_line_that_says_it_and_not_the_last() -> None:
    launcher = FakeLauncher(mute)
    host = host_of(launcher)
    child = host.get("a", SPEC)
    await asyncio.sleep(0)
    printed = ["npm warn deprecated x@1", "npm error code E404", "npm error 404  'x@*' is not in this registry."]
    for line in [*printed, "npm error A complete log of this run can be found in: /x.log"]:
        launcher.launched[0].events.on_stderr(line)
    launcher.launched[0].die()
    with pytest.raises(ConnectFailed) as caught:
        await child.wait_until_ready(now() + 5)
    assert str(caught.value) == "a exited with code 1: 'x@*' is not in this registry."
    child.retry()
    await asyncio.sleep(1)
    launcher.launched[1].events.on_stderr("npm warn deprecated x@1")
    launcher.launched[1].die("exited with code 2")
    await asyncio.sleep(0.1)
    assert str(child.failure) == "a exited with code 2", "nothing of the run before"
    await host.aclose()


async def test_the_reason_of_a_server_for_an_older_mcp_has_no_advice_for_its_authors() -> None:
    launcher = FakeLauncher(mute)
    host = host_of(launcher)
    child = host.get("a", SPEC)
    await asyncio.sleep(0)
    cause = "ModuleNotFoundError: No module named 'mcp.server.fastmcp'"
    launcher.launched[0].events.on_stderr(f"{cause}. This is mcp 2.x; see the migration guide at https://x/")
    launcher.launched[0].die()
    await asyncio.sleep(0.1)
    assert child.program.printed.find_failure_line() == cause
    assert str(child.failure).startswith(f"a exited with code 1: {cause}; the server needs version 1 of")
    await host.aclose()


async def test_a_start_that_fails_as_the_one_before_is_in_the_log_once() -> None:
    launcher = FakeLauncher(mute)
    host = host_of(launcher)
    child = host.get("a", SPEC)
    await asyncio.sleep(0)
    for number in range(3):
        for line in ("Error: no API key", f"    at main (/x.js:{number})"):
            launcher.launched[number].events.on_stderr(line)
        launcher.launched[number].die()
        child.retry()
        await asyncio.sleep(1)
    launcher.launched[3].events.on_stderr("Error: no network")
    launcher.launched[3].die()
    await asyncio.sleep(0.1)
    printed = child.program.printed
    assert [(line.run, line.text) for line in printed.after() if "started" not in line.text] == [
        (1, "exited with code 1, having printed the same as run 2"),
        (2, "exited with code 1, having printed the same as run 3"),
        (3, "Error: no API key"),
        (3, "    at main (/x.js:2)"),
        (3, "exited with code 1"),
        (4, "Error: no network"),
        (4, "exited with code 1"),
    ]
    await host.aclose()


async def test_lines_printed_long_before_the_end_are_not_the_reason() -> None:
    launcher = FakeLauncher(modern)
    host = host_of(launcher)
    child = host.get("a", SPEC)
    await child.wait_until_ready(now() + 5)
    launcher.launched[0].events.on_stderr("Error: one call failed")
    await asyncio.sleep(11)
    launcher.launched[0].die("was killed by SIGKILL")
    await asyncio.sleep(0.1)
    assert str(child.failure) == "a was killed by SIGKILL"
    await host.aclose()


async def test_a_refused_handshake_is_a_sentence_of_its_own_behind_the_name() -> None:
    host = host_of(FakeLauncher(mute))
    child = host.get("a", SPEC)
    failure = child.program.explain(HandshakeRefused(-32000, "no backend"), 120)
    assert str(failure).startswith("a: the server refused the connection (initialize): no backend (error -32000)")
    await host.aclose()


async def test_a_handshake_without_an_answer_is_told_with_what_was_printed_meanwhile() -> None:
    launcher = FakeLauncher(mute)
    host = host_of(launcher)
    child = host.get("a", SPEC)
    await asyncio.sleep(0)
    launcher.launched[0].events.on_stderr("Please log in at https://login.example/device")
    await asyncio.sleep(121)
    assert str(child.failure) == (
        "a did not answer the handshake within 120 s; it printed: Please log in at https://login.example/device"
    )
    await host.aclose()


async def test_an_error_on_standard_output_is_the_reason_where_standard_error_has_none() -> None:
    launcher = FakeLauncher(mute)
    host = host_of(launcher)
    child = host.get("a", SPEC)
    await asyncio.sleep(0)
    launcher.launched[0].events.on_line(b'{"result": NaN}')
    launcher.launched[0].events.on_line(b"Missing API key")
    launcher.launched[0].events.on_line(b'{"result": NaN}')
    launcher.launched[0].die()
    await asyncio.sleep(0.1)
    assert str(child.failure) == "a exited with code 1: Missing API key"
    await host.aclose()


async def test_secrets_of_the_environment_are_in_nothing_that_is_kept_of_what_was_printed() -> None:
    launcher = FakeLauncher(mute)
    host = host_of(launcher)
    database = "postgres://me:hunter22@db/x"
    args = [
        "--token=t0ken-of-mine",
        "--header",
        "Authorization: Bearer b3arer",
        "--api-key",
        "opt1on",
        "https://u:pa55@h/",
    ]
    args += ["-e", "API_KEY", "some/image"]
    spec = ChildSpec.of("server", args, {"API_KEY": "k3y-of-mine", "DB": database, "LOG_LEVEL": "info"})
    child = host.get("a", spec)
    await asyncio.sleep(0)
    launcher.launched[0].events.on_stderr("with t0ken-of-mine, b3arer, opt1on, pa55, some/image")
    launcher.launched[0].events.on_stderr(f"Error: k3y-of-mine is not valid for {database} (info)")
    launcher.launched[0].die()
    await asyncio.sleep(0.1)
    shown = "Error: [credential] is not valid for postgres://me:[credential]@db/x (info)"
    assert child.program.printed.stderr() == (
        "with [credential], [credential], [credential], [credential], some/image",
        shown,
    )
    assert str(child.failure) == f"a exited with code 1: {shown}"
    await host.aclose()


async def test_runs_are_told_apart_in_what_was_printed_also_when_the_spec_changed() -> None:
    launcher = FakeLauncher(mute)
    host = host_of(launcher)
    host.get("a", SPEC)
    await asyncio.sleep(0)
    launcher.launched[0].events.on_stderr("one")
    launcher.launched[0].die()
    await asyncio.sleep(1)
    launcher.launched[1].events.on_stderr("two")
    child = host.get("a", ChildSpec("other"))
    await asyncio.sleep(1)
    launcher.launched[2].events.on_stderr("three")
    told = [(line.run, line.stream, line.text) for line in child.program.printed.after()]
    assert told == [
        (1, "run", "started"),
        (1, "stderr", "one"),
        (1, "run", "exited with code 1"),
        (2, "run", "started again"),
        (2, "stderr", "two"),
        (3, "run", "started again"),
        (3, "stderr", "three"),
    ]
    await host.aclose()


def test_printed_lines_are_bounded_in_bytes() -> None:
    printed = PrintedLines(lambda: 0.0, most_bytes=1000)
    printed.record_start()
    for _ in range(100):
        printed.add("stderr", "é" * 50)
        printed.add("stderr", "")
    kept_lines = printed.after()
    assert sum(len(line.text.encode()) for line in kept_lines) <= 1000
    assert len(kept_lines) <= 10
    assert kept_lines[-1].number == printed.number == 201


async def test_a_process_that_says_nothing_is_spoken_of_after_ten_seconds_and_no_more_once_it_speaks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    host = host_of(launcher := FakeLauncher(mute))
    changes: list[tuple[float, bool]] = []

    class Listener:
        def child_changed(self, key: Hashable, child: Child) -> None:
            changes.append((now(), child.program.silent))

        def child_notified(self, key: Hashable, child: Child, method: str, line: bytes) -> None: ...

    host.listen(Listener())
    child = host.get("a", SPEC)
    await asyncio.sleep(9)
    assert not child.program.silent
    await asyncio.sleep(2)
    (told, is_silent) = changes[-1]
    assert is_silent
    assert told == pytest.approx(10, abs=1)
    assert "a has printed nothing for 10 s" in caplog.text
    launcher.launched[0].events.on_stderr("downloading")
    assert changes[-1][1:] == (False,)
    await host.aclose()


@pytest.mark.parametrize(
    ("command", "started", "advice"),
    [
        ("/usr/bin/uvx", "", "A first start through uvx may still be downloading; else run its command"),
        ("docker", "", "A first start through docker may still be downloading; else run its command"),
        ("npx", "/home/me/.npm/_npx/1/server", "standard error. Run its command"),
        ("server", "", "standard error. Run its command"),
    ],
    ids=["wrapper", "container", "program of a package", "program"],
)
async def test_silence_of_a_process_is_a_download_only_where_its_program_fetches(
    command: str, started: str, advice: str
) -> None:
    host = host_of(FakeLauncher(mute, started))
    child = host.get("a", ChildSpec(command))
    await asyncio.sleep(11)
    assert child.program.silent
    assert advice in child.program.silence()
    await host.aclose()


@pytest.mark.parametrize("server", [modern, legacy, silent])
async def test_a_server_that_answers_in_time_is_not_called_silent(server: Any) -> None:
    host = host_of(FakeLauncher(server))
    child = host.get("a", SPEC)
    seen: list[bool] = []
    for _ in range(60):
        await asyncio.sleep(0.5)
        seen.append(child.program.silent)
    assert not any(seen), "one that answers `initialize` alone is asked that after 10 s"
    await host.aclose()


async def test_a_process_that_logs_and_answers_nothing_is_not_silent() -> None:
    host = host_of(launcher := FakeLauncher(mute))
    child = host.get("a", SPEC)
    await asyncio.sleep(1)
    launcher.launched[0].events.on_stderr("loading the index")
    await asyncio.sleep(60)
    assert not child.program.silent
    await host.aclose()


async def test_a_child_that_failed_is_started_at_once_when_it_is_to_be_tried_again() -> None:
    launcher = FakeLauncher(modern)
    launcher.refusal = ConnectFailed("there is no such program", reason="CommandNotFound")
    host = host_of(launcher)
    child = host.get("a", SPEC)
    await asyncio.sleep(100)
    assert child.state is StreamState.FAILED
    launcher.refusal = None
    starts = child.starts
    requested_at = now()
    child.retry()
    assert child.failure is None
    await child.wait_until_ready(now() + 30)
    assert child.starts == starts + 1
    assert now() == pytest.approx(requested_at, abs=0.1)
    child.retry()
    assert child.negotiated is not None, "what runs is left alone"
    await host.aclose()


async def test_a_start_that_goes_on_when_it_is_to_be_tried_again_is_followed_by_another_at_once() -> None:
    launcher = FakeLauncher(mute)
    host = host_of(launcher)
    child = host.get("a", SPEC)
    await asyncio.sleep(1)
    launcher.launched[0].die("exited with code 1: no key")
    await asyncio.sleep(1)
    assert (child.state, child.starts) == (StreamState.STARTING, 2)
    child.retry()
    assert child.failure is None, "it is on its way"
    launcher.answer = modern
    seen: list[object] = []
    host.listen(Failures(seen))
    launcher.launched[1].die("exited with code 1: no key")
    await child.wait_until_ready(now() + 0.1)
    assert (child.starts, seen) == (3, []), "nobody is told of the failure of a start before"
    await host.aclose()


class Failures:
    """Records why children failed."""

    def __init__(self, seen: list[object]) -> None:
        self._seen = seen

    def child_changed(self, key: Hashable, child: Child) -> None:
        self._seen += [] if child.failure is None else [child.failure]

    def child_notified(self, key: Hashable, child: Child, method: str, line: bytes) -> None: ...
