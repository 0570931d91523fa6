"""The commands in processes of their own: exit codes, messages and help, but never a traceback."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from forkserver import program_words
from ports import free_port


def fairlead(*words: str, code: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command. `code`: runs before it in the same interpreter."""
    program = program_words()
    if code:
        main = "import sys; sys.argv = ['fairlead', *sys.argv[1:]]; from fairlead_cli.__main__ import main; main()"
        program = [sys.executable, "-c", f"{code}\n{main}"]
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "COLUMNS": "100"}
    return subprocess.run(
        [*program, *words],
        capture_output=True,
        text=True,
        timeout=30,
        env=environment,
        check=False,
    )


def without(module: str) -> str:
    return f"import sys; sys.modules[{module!r}] = None"


@pytest.mark.parametrize(
    "command", ["up", "operator", "gateway", "tools", "call", "convert", "plan", "crds", "diff", "approve", "version"]
)
def test_each_command_explains_itself_with_an_example(command: str) -> None:
    result = fairlead(command, "--help")
    assert result.returncode == 0
    assert f"fairlead {command}" in result.stdout
    assert "Example" in result.stdout


def test_the_version_is_printed_for_people_and_programs() -> None:
    assert fairlead("version").stdout.startswith("fairlead ")
    assert json.loads(fairlead("version", "--output", "json").stdout)["python"].startswith("3.")


def test_the_version_loads_next_to_nothing() -> None:
    check = (
        "import atexit, sys; atexit.register(lambda: print(sorted({'asyncio', 'httpx2', 'kubernetes', 'mcp', "
        "'fairlead_mcp', 'fairlead_gateway', 'fairlead_operator', 'rich.console'} & set(sys.modules))))"
    )
    assert fairlead("version", code=check).stdout.endswith("[]\n")


@pytest.mark.parametrize("verb", ["tiers", "servers"])
def test_a_command_that_asks_rest_alone_loads_no_session(verb: str) -> None:
    check = "import atexit, sys; atexit.register(lambda: print('fairlead_mcp.session' in sys.modules))"
    result = fairlead(verb, "--url", "http://127.0.0.1:1/mcp", code=check)
    assert result.returncode == 1
    assert result.stdout == "False\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], 2),
        (["fly"], 2),
        (["call"], 2),
        (["up", "--port", "99999"], 2),
        (["up", "no-such-folder"], 2),
        (["tools", "--header", "x"], 2),
        (["tools", "--server", "a/b/c"], 2),
        (["call", "x", "--arguments", "[1]"], 2),
        (["call", "x", "--arguments", "{"], 2),
        (["call", "x", "a=1", "--arguments", "{}"], 2),
        (["operator", "--log-level", "loud"], 2),
        (["operator"], 1),
        (["gateway"], 1),
        (["crds", "--install"], 1),
        (["tools", "--url", "nonsense"], 2),
    ],
)
def test_failures_of_commands_end_with_a_code_and_without_a_traceback(words: list[str], expected: int) -> None:
    result = fairlead(*words)
    assert result.returncode == expected
    assert "Traceback" not in result.stderr + result.stdout
    assert result.stderr.strip() or not words


def test_a_gateway_that_does_not_run_is_a_sentence_with_what_to_do() -> None:
    url = f"http://127.0.0.1:{free_port()}/mcp"
    result = fairlead("tools", "--url", url)
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert url in result.stderr
    assert "fairlead up" in result.stderr


@pytest.mark.parametrize(
    ("module", "words", "extra"),
    [("uv", ["up"], "up"), ("kopf", ["operator"], "operator"), ("uvloop", ["gateway"], "gateway")],
)
def test_a_command_without_its_extra_names_it(module: str, words: list[str], extra: str) -> None:
    result = fairlead(*words, code=without(module))
    assert result.returncode == 1
    advice = rf"needs the Python package {module}, which is missing: pip install '(fairlead|/.+)\[{extra}\]'"
    assert re.search(advice, result.stderr)


@pytest.mark.parametrize("words", [["version"], ["crds"], ["--help"], ["up", "--help"], ["tools", "--help"]])
def test_the_base_install_is_enough_for_what_needs_no_more(words: list[str]) -> None:
    missing = ";".join(
        without(m) for m in ("kopf", "kubernetes", "aiohttp", "uvicorn", "uvloop", "fastapi", "uv", "mcp")
    )
    assert fairlead(*words, code=missing).returncode == 0


def test_the_crds_are_printed_as_yaml_that_can_be_applied() -> None:
    printed = list(yaml.safe_load_all(fairlead("crds").stdout))
    assert [document["kind"] for document in printed] == ["CustomResourceDefinition"] * 3


def test_a_folder_that_is_in_use_is_named(tmp_path: Path) -> None:
    hold = f"import fcntl; lock = open({str(tmp_path / '.lock')!r}, 'w'); fcntl.flock(lock, fcntl.LOCK_EX)"
    result = fairlead("up", "--state-dir", str(tmp_path), str(tmp_path), code=hold)
    assert result.returncode == 1
    assert "another `fairlead up` uses" in result.stderr
