"""The line that says why a program failed. `golden/stderr` has output of real programs, with the line to choose after
`===`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlead_mcp.diagnosis import MOST_CHARACTERS, diagnosis
from fairlead_mcp.printed import printable

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "stderr"


def cases() -> Iterator[object]:
    for file in sorted(GOLDEN.glob("*.txt")):
        for part in f"\n{file.read_text()}".split("\n=== ")[1:]:
            chosen, _, printed = part.partition("\n")
            yield pytest.param(chosen, printed, id=f"{file.stem}: {chosen[:60]}")


@pytest.mark.parametrize(("chosen", "printed"), [*cases()])
def test_of_what_a_program_printed_the_line_is_chosen_that_says_why_it_failed(chosen: str, printed: str) -> None:
    assert diagnosis(printable(line.encode()) for line in printed.splitlines()) == chosen


@pytest.mark.parametrize(
    "after",
    [
        "npm notice New minor version of npm available! 11.19.1 -> 11.21.2",
        "npm warn deprecated inflight@1.0.6: This module is not supported",
        "npm error A complete log of this run can be found in: /home/me/.npm/_logs/debug-0.log",
        (
            "npm error Lifecycle script `start` failed with error:\nnpm error code 1\nnpm error path /srv\n"
            "npm error command failed\nnpm error command sh -c node index.js"
        ),
        (
            "Exception ignored in: <function Connection.__del__>\nTraceback (most recent call last):\n"
            '  File "x.py", line 1, in f\nRuntimeError: Event loop is closed'
        ),
        "/usr/lib/python3.11/x.py:7: RuntimeWarning: coroutine 'main' was never awaited",
        "ERROR:    Application startup failed. Exiting.",
        "INFO:     Shutting down",
        "2026-01-02 03:04:05,678 - server - WARNING - no cache: cannot write",
        '{"level":30,"msg":"error handler removed"}',
        "hint: See above for the error",
        "Weather server running on stdio",
        "Exiting...",
        "exit status 1",
        "    ^",
        "\x1b[31m\x1b[0m",
    ],
)
def test_lines_printed_after_the_reason_do_not_hide_it(after: str) -> None:
    lines = ["Error: WEATHER_KEY is not set", *after.splitlines()]
    assert diagnosis(printable(line.encode()) for line in lines) == "Error: WEATHER_KEY is not set"


@pytest.mark.parametrize(
    ("printed", "chosen"),
    [
        ("Reading config\nCannot open the vault\nGiving way to the next one", "Cannot open the vault"),
        ("one\ntwo", "two"),
        ("2026/11/22 13:45:37 the vault is locked", "the vault is locked"),
        ("Error: Server already running on port 3000", "Error: Server already running on port 3000"),
        ("Error: INFO endpoint failed", "Error: INFO endpoint failed"),
        ('{"level":50,"time":1,"msg":"bad \\"token\\""}', 'bad \\"token\\"'),
        ('time=2026-01-02T03:04:05Z level=ERROR msg="no database" attempt=3', "no database"),
        ("[error] no database\n[info] bye", "[error] no database"),
        (
            (
                'Traceback (most recent call last):\n  File "a.py", line 1\npydantic_core.ValidationError: 1 '
                "validation error for Settings\ntoken\n  Field required [type=missing]"
            ),
            "pydantic_core.ValidationError: 1 validation error for Settings token Field required [type=missing]",
        ),
        (
            'ZodError: [\n  {\n    "path": ["KEY"],\n    "message": "Required"\n  }\n]\n    at parse (x.js:1:2)',
            'ZodError: [ { "path": ["KEY"], "message": "Required" } ]',
        ),
        ("Error: cannot\n    at f (a.js:1)\n  [cause]: Error: deeper\n      at g (b.js:2)", "Error: cannot"),
        (
            "npm ERR! code E404\nnpm ERR! 404 Not Found - GET https://r.example/x",
            "404 Not Found - GET https://r.example/x",
        ),
    ],
)
def test_other_forms_of_reasons(printed: str, chosen: str) -> None:
    assert diagnosis(printed.splitlines()) == chosen


@pytest.mark.parametrize(
    "printed",
    [
        "",
        "\n\n  \n",
        "npm warn deprecated inflight@1.0.6: This module is not supported\nnpm notice new version",
        "Installed 31 packages in 139ms",
        "Weather MCP server running on stdio",
        "INFO: ready",
        "/srv/x.py:7: UserWarning: the cache cannot be written",
        "Traceback (most recent call last):",
        "thread 'main' panicked at r.rs:1:1:",
    ],
)
def test_diagnosis_chooses_nothing_from_lines_without_a_reason(printed: str) -> None:
    assert diagnosis(printed.splitlines()) == ""


def test_the_words_of_failure_that_a_program_logs_last_at_a_low_level_are_the_reason_if_there_is_no_other() -> None:
    logged = "[DEBUG 2026-12-01T00:42:18.813Z] Missing required configuration: API_KEY"
    assert diagnosis([logged]) == "Missing required configuration: API_KEY"
    assert diagnosis(["2026-12-01 00:42:18,813 INFO - cannot open the database"]) == "cannot open the database"
    assert diagnosis([logged, "INFO: bye"]) == ""
    assert diagnosis(["no database", logged]) == "no database"


def test_the_box_of_a_long_exception_group_is_removed_although_its_beginning_is_not_read() -> None:
    printed = (
        "  + Exception Group Traceback (most recent call last):",
        '  |   File "/srv/x.py", line 7, in main',
        "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)",
        "  +-+---------------- 1 ----------------",
        "    | Traceback (most recent call last):",
        *('    |   File "/srv/x.py", line 7, in main' for _ in range(200)),
        "    | OSError: the disk is full",
        "    +------------------------------------",
    )
    assert diagnosis(printed) == "OSError: the disk is full"


def test_the_line_is_bounded_however_much_was_printed() -> None:
    assert len(diagnosis(["Error: " + "x" * 10_000] * 1000)) <= MOST_CHARACTERS
    assert len(diagnosis(["ZodError: ["] + ["x" * 1000 for _ in range(1000)])) <= MOST_CHARACTERS
    assert len(diagnosis(["error: x", *("  cause: " + "y" * 900,) * 500])) <= MOST_CHARACTERS


def test_the_cause_below_an_error_of_node_says_more_than_the_error() -> None:
    printed = (
        "[1] Using automatically selected callback port: 3334",
        "[1] Fatal error: TypeError: fetch failed",
        "    at node:internal/deps/undici/undici:13510:13",
        "    at async send (file:///x/dist/chunk.js:31410:24) {",
        "  [cause]: Error: getaddrinfo ENOTFOUND mcp.example.com",
        "      at GetAddrInfoReqWrap.onlookupall [as oncomplete] (node:dns:122:26) {",
        "    errno: -3008,",
        "    code: 'ENOTFOUND',",
        "  }",
        "}",
    )
    assert diagnosis(printed) == "Error: getaddrinfo ENOTFOUND mcp.example.com"
    assert diagnosis((*printed[:4], "  [cause]: TypeError: bad port {")) == "TypeError: bad port"


def test_a_help_is_told_by_its_usage_line_and_not_by_a_sentence_of_its_text() -> None:
    printed = (
        "Notes Server",
        "Usage: notes-mcp <folder> [folder ...]",
        "Requirements:",
        "- Paths cannot overlap",
        "initialize it properly. This creates the required configuration.",
        "Examples:",
        "  # Invalid paths:",
        "  notes-mcp ~/   # home",
    )
    assert diagnosis(printed) == "Usage: notes-mcp <folder> [folder ...]"
    assert diagnosis((*printed, "Missing required argument: folder")) == "Missing required argument: folder"
    assert diagnosis(("Please provide a folder", *printed)) == "Please provide a folder"
    assert diagnosis((*printed[:4], "Error: no folder", *printed[4:])) == "Error: no folder"


def test_a_request_that_version_1_of_the_package_mcp_does_not_know_is_never_the_reason() -> None:
    printed = [
        "Failed to validate request: 31 validation errors for ClientRequest",
        "PingRequest.method",
        "  Input should be 'ping' [type=literal_error, input_value='server/discover', input_type=str]",
        "    For further information visit https://errors.pydantic.dev/2.14/v/literal_error",
        "CancelTaskRequest.params.taskId",
        "  Field required [type=missing, input_value={'_meta': {}}, input_type=dict]",
        "Processing request of type ListPromptsRequest",
        "Processing request of type",
        "                             ListPromptsRequest",
    ]
    assert diagnosis(printed) == ""
    assert diagnosis([*printed, "no database"]) == "no database"
