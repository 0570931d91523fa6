"""Servers run exactly the calls that the gateway allowed, however they read names in JSON.

The tests use real servers that ignore case: the official Go SDK before the fix of CVE-2026-27896, a plain handler with
Go's encoding/json, and a handler with Jackson and ACCEPT_CASE_INSENSITIVE_PROPERTIES. The other known parser of this
kind, .NET with PropertyNameCaseInsensitive (the default of ASP.NET), is not tested.

Each server is built once, in ~/.cache. A test is skipped if its compiler is missing. Builds need the network: a failed
build fails the test in CI, and skips it elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import urllib.request
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec import Raw

from builtprograms import build_go, build_java, build_program
from fairlead_api.documents.catalog import DeclaredLatency, Definition
from fairlead_api.documents.rules import Policy, Rule, Rules
from fairlead_app.authentication import Trust
from fairlead_app.gateway import Gateway
from gatewayworld import LEGACY, MODERN, Answer, Ask, ask, calling, catalog, entry, legacy, modern, running
from neededprograms import require_program
from policyworld import Vouching, anybody, by
from toolservers import tool

_SOURCES: Final = Path(__file__).parents[2] / "support" / "foreign_readers"


class Reader:
    """A running server."""

    def __init__(self, port: int) -> None:
        self._port = port

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._port}{path}"

    async def new_calls(self) -> list[Any]:
        """Calls that the server ran since the last request: `{"name", "arguments"}`."""

        def get() -> Any:
            with urllib.request.urlopen(self.url("/ran"), timeout=30) as answer:
                return json.loads(answer.read())

        calls: list[Any] = await asyncio.to_thread(get)
        return calls


def go_reader() -> contextlib.AbstractAsyncContextManager[Reader]:
    return _running("go", ["go"], build_go, lambda folder: [str(folder / "reader")])


def java_reader() -> contextlib.AbstractAsyncContextManager[Reader]:
    return _running(
        "java",
        ["java", "javac", "mvn"],
        build_java,
        lambda folder: ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{folder}:{folder}/lib/*", "Reader"],
    )


@contextlib.asynccontextmanager
async def _running(
    language: str, needed: Sequence[str], build: Callable[[Path, Path], None], command: Callable[[Path], list[str]]
) -> AsyncIterator[Reader]:
    for program in needed:
        require_program(program)
    folder = await asyncio.to_thread(build_program, _SOURCES / language, f"reader-{language}", build)
    process = await asyncio.create_subprocess_exec(*command(folder), stdin=PIPE, stdout=PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            yield Reader(int(await process.stdout.readline()))
    finally:
        process.stdin.close()
        await process.wait()


META = "io.modelcontextprotocol/"
SERVERS = [
    pytest.param(go_reader, "/sdk", LEGACY, id="the official Go SDK"),
    pytest.param(go_reader, "/plain", MODERN, id="Go's encoding/json"),
    pytest.param(java_reader, "/plain", MODERN, id="Jackson"),
]
ERAS = pytest.mark.parametrize("era", [MODERN, LEGACY])
FEW: dict[str, Any] = {
    "type": "object",
    "properties": {
        "limit": {"type": "integer", "maximum": 5},
        "path": {"type": "string", "pattern": "^/public/"},
        "deep": {"type": "object", "properties": {"limit": {"maximum": 5}}},
    },
}
POLICY = Policy(
    namespace="default",
    name="stock",
    every=True,
    rules=(Rule(action="Allow", tools=("get_stock",), arguments=FEW), Rule(action="Deny", tools=("delete_all",))),
)
FREE = Policy(
    namespace="default",
    name="stock",
    every=True,
    rules=(Rule(action="Allow", tools=("get_stock",)), Rule(action="Deny", tools=("delete_all",))),
)


@contextlib.asynccontextmanager
async def shop(
    folder: Path,
    read: Callable[[], contextlib.AbstractAsyncContextManager[Reader]],
    path: str,
    version: str,
    policy: Policy = POLICY,
    **more: Any,
) -> AsyncIterator[tuple[Gateway, Reader]]:
    """A gateway with a server that has a tool which may be called with limited arguments, and a tool which may not."""
    async with read() as reader:
        tools = [entry(tool("get_stock"), **more), entry("delete_all")]
        served = catalog("shop", reader.url(path), tools, version=version)
        trust = Trust((Vouching(anybody("npc")),))
        async with running(folder, served, Rules(policies=(policy,)), trust=trust) as gateway:
            yield gateway, reader


def offer(member: str, name: str) -> Definition:
    return Definition(name=name, definition=Raw(json.dumps({"name": name, member: name}).encode()), hash="")


def with_params(request: Ask, *, more: str = "", meta: str = "", arguments: str | None = None, last: str = "") -> Ask:
    """The request with raw JSON members at the beginning (`more`) or the end (`last`) of its params, or in `_meta`
    (`meta`)."""
    params = {**request.message["params"]}
    own = json.dumps(params.pop("_meta", {}))[1:-1]
    members = ", ".join(filter(None, [own, meta]))
    parts = [more, f'"_meta": {{{members}}}' if members else ""]
    if arguments is not None:
        params.pop("arguments", None)
        parts.append(f'"arguments": {arguments}')
    text = ", ".join(filter(None, [*parts, json.dumps(params)[1:-1], last]))
    message = json.dumps({**request.message, "params": "HERE"}).replace('"HERE"', f"{{{text}}}")
    return by("npc", Ask(headers=request.headers, body=message.encode()))


def is_refused(answer: Answer) -> bool:
    """Whether the gateway refused a request, by an error or by a result."""
    if "error" in answer.message:
        return bool(answer.code == -32602)
    return answer.message["result"].get("isError") is True and answer.refusal == "INVALID_ARGUMENTS"


ARGUMENTS = '{"limit": 1}'
OTHER_NAMES = [
    '"Name": "delete_all"',
    '"NAME": "delete_all"',
    '"nam\\u0045": "delete_all"',
    '"name\\u0000": "delete_all"',
    '"Arguments": {"limit": 9}',
    '"argument\\u017f": {"limit": 9}',
    '"argumentſ": {"limit": 9}',
    '"ARGUMENTS": {"path": "/secret"}',
    '"_META": {"progressToken": 7}',
    '"_Meta": {}',
    '"RequestState": "x"',
    '"InputResponses": {}',
    '"Task": {}',
]
OTHER_ARGUMENTS = [
    '{"Limit": 9}',
    '{"LIMIT": 9, "limit": 1}',
    '{"limit": 1, "LIMIT": 9}',
    '{"l\\u0130mit": 1, "lim\\u0131t": 9}',
    '{"limit": 1, "limit": 9}',
    '{"limit": 9, "limit": 1}',
    '{"limit": 1, "l\\u0069mit": 9}',
    '{"Path": "/secret"}',
    '{"path": "/public/a", "PATH": "/secret"}',
    '{"deep": {"Limit": 9}}',
    '{"Deep": {"limit": 9}}',
    '{"deep": {"limit": 1}, "Deep": {"limit": 9}}',
    '{"limit\\u0000": 9}',
]


@pytest.mark.parametrize(("read", "path", "version"), SERVERS)
@ERAS
async def test_a_member_beside_a_known_one_runs_nothing_else(
    tmp_path: Path, read: Any, path: str, version: str, era: str
) -> None:
    async with shop(tmp_path, read, path, version) as (gateway, reader):
        ran = list[Any]()
        taken = list[str]()
        for progress in ("", '"progressToken": "p"'):  # progress takes another path through the gateway
            for members in OTHER_NAMES:
                for position in ("more", "last"):
                    made = with_params(
                        calling("shop__get_stock", era=era), meta=progress, arguments=ARGUMENTS, **{position: members}
                    )
                    answer = await ask(gateway, made)
                    ran += [(members, call) for call in await reader.new_calls()]
                    taken += [] if is_refused(answer) else [members]
        assert (ran, taken) == ([], [])


@pytest.mark.parametrize(("read", "path", "version"), SERVERS)
@ERAS
async def test_arguments_in_another_spelling_cannot_pass_a_policy(
    tmp_path: Path, read: Any, path: str, version: str, era: str
) -> None:
    async with shop(tmp_path, read, path, version) as (gateway, reader):
        ran = list[Any]()
        taken = list[str]()
        for progress in ("", '"progressToken": "p"'):
            for arguments in OTHER_ARGUMENTS:
                made = with_params(calling("shop__get_stock", era=era), meta=progress, arguments=arguments)
                answer = await ask(gateway, made)
                ran += [(arguments, call) for call in await reader.new_calls()]
                taken += [] if is_refused(answer) else [arguments]
        assert (ran, taken) == ([], [])


@pytest.mark.parametrize(("read", "path", "version"), SERVERS)
@ERAS
async def test_an_allowed_call_is_the_call_that_runs(
    tmp_path: Path, read: Any, path: str, version: str, era: str
) -> None:
    """Duplicate members are forwarded once, unknown ones are forwarded, and members next to `params` are not."""
    changes = [
        {},
        {"more": '"name": "delete_all"'},
        {"more": '"n\\u0061me": "delete_all"'},
        {"more": '"x-extension": {"Name": "delete_all"}'},
        {"arguments": '{"limit": 5, "unnamed": {"Limit": 1}}'},
    ]
    beside = ['"Method": "tools/list"', '"METHOD": "x"', '"Params": {"name": "delete_all"}', '"ID": 7', '"Id": 8']
    async with shop(tmp_path, read, path, version) as (gateway, reader):
        for change in changes:
            made = with_params(calling("shop__get_stock", era=era), **{"arguments": ARGUMENTS, **change})
            assert (await ask(gateway, made)).message["id"] == 1
            (run,) = await reader.new_calls()
            assert (run["name"], run["arguments"]["limit"]) == ("get_stock", 5 if "unnamed" in str(change) else 1)
        for member in beside:
            made = with_params(calling("shop__get_stock", era=era), arguments=ARGUMENTS)
            assert made.body is not None
            for body in (made.body[:-1] + f", {member}}}".encode(), f"{{{member}, ".encode() + made.body[1:]):
                answer = await ask(gateway, Ask(headers=made.headers, body=body))
                assert (answer.status, answer.message["id"]) == (200, 1)
                assert [run["name"] for run in await reader.new_calls()] == ["get_stock"]


@ERAS
async def test_prompts_resources_and_completions_are_what_was_decided_about(tmp_path: Path, era: str) -> None:
    async with go_reader() as reader:
        served = catalog(
            "shop",
            reader.url("/sdk"),
            version=LEGACY,
            capabilities=("prompts", "resources", "completions"),
            prompts=(offer("name", "get_stock"),),
            resources=(offer("uri", "shop://get_stock"),),
        )
        async with running(tmp_path, served) as gateway:
            send = modern if era == MODERN else legacy
            requests: list[tuple[str, dict[str, Any], str, str]] = [
                ("prompts/get", {"name": "shop__get_stock"}, "prompt get_stock", '"Name": "delete_all"'),
                ("resources/read", {"uri": "shop://get_stock"}, "read shop://get_stock", '"URI": "shop://delete_all"'),
                (
                    "completion/complete",
                    {"ref": {"type": "ref/prompt", "name": "shop__get_stock"}, "argument": {"name": "a", "value": ""}},
                    "complete get_stock",
                    '"Ref": {"type": "ref/prompt", "name": "delete_all"}',
                ),
            ]
            for method, params, run, member in requests:
                made = send(method, params)
                if era == MODERN and method != "completion/complete":
                    made = made.with_headers(mcp_name=str(next(iter(params.values()))))
                assert "result" in (await ask(gateway, with_params(made))).message
                assert [call["name"] for call in await reader.new_calls()] == [run]
                for position in ("more", "last"):
                    answer = await ask(gateway, with_params(made, **{position: member}))
                    assert (await reader.new_calls(), answer.code) == ([], -32602)
            made = send(
                "completion/complete",
                {
                    "ref": {"type": "ref/prompt", "name": "shop__get_stock", "Name": "delete_all"},
                    "argument": {"name": "a", "value": ""},
                },
            )
            assert (await ask(gateway, with_params(made))).code == -32602
            assert await reader.new_calls() == []


async def test_a_result_is_not_kept_for_arguments_that_servers_read_otherwise(tmp_path: Path) -> None:
    async with shop(tmp_path, go_reader, "/plain", MODERN, FREE, latency=DeclaredLatency(cacheable_seconds=60)) as (
        gateway,
        reader,
    ):
        for arguments in ('{"limit": 1, "limit": 2}', '{"limit": 2}', '{"limit": 2}'):
            await ask(gateway, with_params(calling("shop__get_stock"), arguments=arguments))
        assert [call["arguments"]["limit"] for call in await reader.new_calls()] == [2, 2]
