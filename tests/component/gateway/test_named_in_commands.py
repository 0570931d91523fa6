"""Names in commands: a server's name without namespace, and messages about wrong names of tools and arguments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import fairlead
from gatewayworld import catalog, running
from rawserver import Request
from toolservers import modern_server

TOOL = {
    "name": "echo",
    "description": "Echoes.\nTwice.",
    "inputSchema": {
        "type": "object",
        "properties": {"message": {"type": "string", "description": "What to say."}},
        "required": ["message"],
    },
}
pytestmark = pytest.mark.timeout(240)  # each command starts an interpreter
NOWHERE = "http://127.0.0.1:9/mcp"
EVERYTHING = catalog("everything", NOWHERE, [TOOL, "get-sum"])


def echo(request: Request) -> dict[str, object]:
    return {"content": [{"type": "text", "text": str(request.params.get("arguments"))}]}


async def test_an_unknown_tool_is_said_in_one_wording(tmp_path: Path) -> None:
    async with running(tmp_path, EVERYTHING) as gateway:
        url = ("--url", f"http://127.0.0.1:{gateway.port}/mcp")
        tools = f"`fairlead tools {' '.join(url)}` lists the tools."
        message = f"Unknown tool: ech0. Did you mean everything__echo? {tools}"
        for words in (
            ["call", "ech0"],
            ["call", "ech0", "message=x"],
            ["call", "ech0", "-a", '{"message": "x"}'],
            ["explain", "ech0"],
            ["tools", "ech0"],
            ["can", "me", "call", "ech0"],
        ):
            assert await fairlead(*words, *url) == (2, "", f"fairlead {words[0]}: {message}\n"), words


async def test_an_argument_that_the_tool_has_not_is_named_and_nothing_is_called(tmp_path: Path) -> None:
    closed = {**TOOL, "name": "closed", "inputSchema": {**TOOL["inputSchema"], "additionalProperties": False}}  # type: ignore[dict-item]  # JSON
    open_ = {**TOOL, "name": "open", "inputSchema": {**TOOL["inputSchema"], "additionalProperties": True}}  # type: ignore[dict-item]  # JSON
    async with (
        modern_server([TOOL, closed, open_], call=echo) as server,
        running(tmp_path, catalog("s", server.url, [TOOL, closed, open_])) as gateway,
    ):
        url = ("--url", f"http://127.0.0.1:{gateway.port}/mcp")
        for words in (
            ["s__echo", "mesage=hi"],
            ["s__closed", "message=a", "mesage=hi"],
            ["s__closed", "-a", '{"mesage": "hi"}'],
        ):
            code, out, err = await fairlead("call", *words, *url)
            assert (code, out, err.count("\n")) == (2, "", 1)
            assert err.startswith(f"fairlead call: {words[0]}: it has no argument 'mesage' (did you mean message?)")
        assert "tools/call" not in server.methods()
        for words in (
            ["s__open", "message=hi", "more=1"],
            ["s__echo", "-a", '{"message": "hi", "more": 1}'],
            ["s__echo", "message=hi"],
        ):
            code, out, err = await fairlead("call", *words, *url)
            assert (code, "'message': 'hi'" in out, err) == (0, True, "")


async def test_a_plain_name_names_a_server_as_its_namespace_does(tmp_path: Path) -> None:
    async with (
        modern_server([TOOL], call=echo) as server,
        running(
            tmp_path,
            catalog("everything", server.url, [TOOL]),
            catalog("twice", server.url, [TOOL]),
            catalog("twice", server.url, [TOOL], namespace="other", prefix="another"),
        ) as gateway,
    ):
        url = ("--url", f"http://127.0.0.1:{gateway.port}/mcp")
        for name in ("everything", "default/everything"):
            _, listed, _ = await fairlead("tools", "--json", "--server", name, *url)
            assert [tool["name"] for tool in json.loads(listed)] == ["echo"]
            _, planned, _ = await fairlead("plan", "--model", "gpt-5", "--json", "--server", name, *url)
            assert list(json.loads(planned)["offer"]["names"]) == ["everything__echo"]
        assert (await fairlead("call", "echo", "message=hi", "--server", "everything", *url))[0] == 0
        _, by_prefix, _ = await fairlead("tools", "--json", "--server", "another", *url)
        assert len(json.loads(by_prefix)) == 1
        code, _, err = await fairlead("tools", "--server", "everthing", *url)
        assert (code, "no server 'everthing'. Did you mean everything?" in err) == (2, True)
        code, _, err = await fairlead("tools", "--server", "twice", *url)
        assert code == 2
        assert "2 servers have the name 'twice': use namespace/name. Valid values: default/twice, other/twice" in err
        code, _, err = await fairlead("refresh", "everthing", *url)
        assert (code, "Did you mean everything?" in err) == (2, True)


async def test_fairlead_tools_shows_one_tool_with_its_arguments(tmp_path: Path) -> None:
    async with running(tmp_path, EVERYTHING) as gateway:
        url = ("--url", f"http://127.0.0.1:{gateway.port}/mcp")
        code, out, _ = await fairlead("tools", "everything__echo", *url)
        _, output, _ = await fairlead("tools", "everything__echo", "--json", *url)
        _, bare, _ = await fairlead("tools", "everything__get-sum", *url)
    assert code == 0
    assert out.startswith("everything__echo\n  Echoes.\n  Twice.\n")
    assert out.splitlines()[-1].split() == ["message", "string", "required", "What", "to", "say."]
    assert json.loads(output)["inputSchema"] == TOOL["inputSchema"]
    assert "The tool takes no arguments." in bare


async def test_arguments_of_a_tool_that_is_called_by_its_id_are_looked_at_as_well(tmp_path: Path) -> None:
    async with running(tmp_path, EVERYTHING) as gateway:
        url = ("--url", f"http://127.0.0.1:{gateway.port}/mcp")
        code, _, err = await fairlead("call", "mcp.everything.echo", "mesage=1", *url)
    assert (code, "it has no argument 'mesage'" in err) == (2, True)


async def test_names_are_completed_from_the_gateway(tmp_path: Path) -> None:
    async with running(tmp_path, EVERYTHING, catalog("files", NOWHERE, ["read"])) as gateway:
        environment = {"_FAIRLEAD_COMPLETE": "complete_bash", "FAIRLEAD_URL": f"http://127.0.0.1:{gateway.port}/mcp"}
        for line, at, expected in (
            ("fairlead call every", 2, ["everything__echo", "everything__get-sum"]),
            ("fairlead refresh f", 2, ["files"]),
            ("fairlead tools --server e", 3, ["everything"]),
        ):
            code, out, err = await fairlead(**environment, COMP_WORDS=line, COMP_CWORD=str(at))
            assert (code, out.split(), err) == (0, expected, ""), line
        environment["FAIRLEAD_URL"] = "http://127.0.0.1:9/mcp"
        code, out, err = await fairlead(**environment, COMP_WORDS="fairlead call x", COMP_CWORD="2")
        assert (code, out.split(), err) == (0, [], "")
