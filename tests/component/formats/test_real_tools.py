"""Tools of real servers in every format: they pass the rules of the format and the validators of botocore and
google-genai.

The scan for suspicious definitions finds nothing in them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from fairlead_api.documents.pins import Pinned
from fairlead_formats.registry import FORMATS, find
from fairlead_formats.tool_format import Options
from fairlead_operator.local.installers import PackageVersion, explain
from fairlead_tools.definitions.scan import scan
from foreignvalidators import VARIABLE, judge
from formatrules import violations
from formatschemas import ODDITIES
from providerfaults import provider_fault

EVAL = "FAIRLEAD_EVAL_TOOLS"
PARTS = 8
"""Number of parts of the evaluation set. Except at night, each choice is tested with one part."""
CHOICES = {
    **{name: (name, Options()) for name in FORMATS if name != "mcp"},
    "openai-chat gpt-5": ("openai-chat", Options(model="gpt-5")),
    "openai-chat strict": ("openai-chat", Options(strict=True)),
    "anthropic strict": ("anthropic", Options(strict=True)),
    "gemini parameters": ("gemini", Options(gemini_field="parameters")),
    "bedrock-converse strict": ("bedrock-converse", Options(strict=True, model="claude-sonnet-5")),
}
every_choice = pytest.mark.parametrize("choice", sorted(CHOICES))
Tool = dict[str, Any]


def _convert(choice: str, tools: list[Tool]) -> tuple[Tool, ...]:
    format_name, options = CHOICES[choice]
    return find(format_name).convert(tools, options).tools


def broken_tools(choice: str, tools: list[Tool]) -> list[Any]:
    """Convert the tools. Returns the tools that are refused and the converted tools that break a rule."""
    format_name, options = CHOICES[choice]
    converted = find(format_name).convert(tools, options)
    refused: list[Any] = [loss for loss in converted.report if loss.action == "refused"]
    return refused + [
        (tool, problems) for tool in converted.tools if (problems := violations(format_name, tool, options.model))
    ]


@pytest.fixture(scope="module")
def definitions() -> list[Tool]:
    """All lines of the evaluation set."""
    path = os.environ.get(EVAL)
    if not path or not Path(path).is_file():
        pytest.skip(f"{EVAL} names no file of tool definitions (JSON lines with name, description, inputSchema)")
    with Path(path).open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def named_tools(definitions: list[Tool]) -> list[Tool]:
    """MCP definitions with unique names."""
    members = ("description", "inputSchema")
    return [
        {"name": tool.get("id", tool["name"]), **{key: tool[key] for key in members if key in tool}}
        for tool in definitions
    ]


@pytest.fixture(scope="module")
def evaluation_tools(definitions: list[Tool]) -> list[Tool]:
    """The tools of 98 real servers."""
    return named_tools([tool for tool in definitions if tool.get("pool", "mcp") == "mcp"])


@pytest.mark.diagonal(1)
@every_choice
@pytest.mark.parametrize("part", range(PARTS))
def test_every_tool_of_the_evaluation_set_is_converted_validly_beside_one_that_is_refused(
    choice: str, part: int, definitions: list[Tool]
) -> None:
    tools = named_tools(definitions[part::PARTS])
    refused = {"name": "refused", "inputSchema": {"type": "array"}}
    assert [loss.tool for loss in broken_tools(choice, [refused, *tools])] == ["refused"]
    faults = (provider_fault(CHOICES[choice][0], each) for each in _convert(choice, tools))
    assert [fault for fault in faults if fault is not None] == []


@pytest.fixture(scope="module", params=["mcp-server-time", "mcp-server-git", "mcp-server-fetch"])
def server_tools(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Tool]:
    """Answer of a published server to tools/list. Skips the test with a reason if PyPI cannot be reached."""
    return tools_of(install_program(request.param, tmp_path_factory.mktemp("package")))


def install_program(package: str, folder: Path) -> str:
    """The program of a package, installed in an environment of its own in up to three attempts."""
    uv = shutil.which("uv")
    assert uv, "uv comes with the development dependencies"
    words = [uv, "tool", "install", "--quiet", package]
    env = {**os.environ, "UV_TOOL_DIR": str(folder / "tools"), "UV_TOOL_BIN_DIR": str(folder / "bin")}
    output = ""
    for _ in range(3):
        done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode == 0:
            return str(folder / "bin" / package)
        output = done.stderr.strip()
    failure = explain(PackageVersion("pypi", package, "newest"), output.splitlines())
    if failure.network and "CI" not in os.environ:
        pytest.skip(f"{failure}: {output[-300:]}")
    pytest.fail(f"{failure}: {output}")


def tools_of(program: str) -> list[Tool]:
    """The tools of a program that serves MCP on standard input and output."""
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        answer: dict[str, Any] = {}
        client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        for message in (
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        ):
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
            if message.get("id"):
                line = process.stdout.readline()
                assert line, "it ended before it answered: its log stands above"
                answer = json.loads(line)
        process.stdin.close()
        process.terminate()
    return list(answer["result"]["tools"])


@pytest.mark.network
@pytest.mark.timeout(400)
@every_choice
def test_every_tool_of_a_published_server_is_converted_validly(choice: str, server_tools: list[Tool]) -> None:
    assert server_tools
    assert broken_tools(choice, server_tools) == []


def suspicious(tools: list[Tool]) -> list[str]:
    """Findings of the operator's scan of definitions."""
    return [
        str(finding)
        for tool in tools
        for finding in scan([Pinned(sort="tool", name=tool["name"], definition=Raw(json.dumps(tool).encode()))])
    ]


@pytest.mark.network
@pytest.mark.timeout(400)
def test_definitions_of_published_servers_are_not_suspicious(server_tools: list[Tool]) -> None:
    assert suspicious(server_tools) == []


def test_definitions_of_the_evaluation_set_are_not_suspicious(evaluation_tools: list[Tool]) -> None:
    assert suspicious(evaluation_tools) == []


@pytest.fixture(scope="module")
def validators() -> str:
    """Python interpreter of an environment with botocore and google-genai."""
    python = os.environ.get(VARIABLE)
    if not python:
        pytest.skip(
            f"{VARIABLE} names no Python with botocore and google-genai, which do not fit into this environment"
        )
    return python


@pytest.mark.timeout(180)
def test_the_validators_of_botocore_and_google_take_every_tool(validators: str, request: pytest.FixtureRequest) -> None:
    tools: list[Tool] = [
        {"name": f"odd_{number}", "inputSchema": schema} for number, schema in enumerate(ODDITIES.values())
    ]
    if os.environ.get(EVAL):
        tools += request.getfixturevalue("evaluation_tools")
    converted: dict[str, list[Tool]] = {}
    for format_name, options in CHOICES.values():
        if format_name.startswith(("gemini", "bedrock")):
            converted.setdefault(format_name, []).extend(find(format_name).convert(tools, options).tools)
    assert judge(validators, converted) == []


@pytest.mark.timeout(180)
def test_the_validators_of_botocore_and_google_refuse_what_is_not_converted(validators: str) -> None:
    raw = {"type": "object", "properties": {"a": {"type": ["string", "null"], "exclusiveMinimum": 1}}}
    spec = {"name": "t", "description": "", "inputSchema": {"json": raw}}
    tools: dict[str, list[Tool]] = {
        "gemini": [{"name": "t", "parameters": raw}],
        "bedrock-converse": [{"toolSpec": spec}],
    }
    assert [refusal[0] for refusal in judge(validators, tools)] == ["gemini", "bedrock-converse"]
