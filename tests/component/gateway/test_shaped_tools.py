"""Tools that clients see under other names, with other arguments: lists, calls, policies, audit log and errors."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from askers import session_of
from fairlead_api.documents.catalog import Catalog, Credential, DeclaredLatency, definition_hash
from fairlead_api.documents.rules import Policy, Rule, Rules
from fairlead_api.meta import ServerKey
from fairlead_operator.local.documents import DirectoryCredentialStore
from gatewayworld import (
    LEGACY,
    MODERN,
    Answer,
    ask,
    calling,
    catalog,
    entry,
    legacy,
    modern,
    publish,
    running,
    wait_for_snapshots,
)
from rawserver import RawServer, Request, raw_server
from restworld import get
from shapedtools import OVERRIDE, SEARCH, shaped_entry
from tasks_gateway import about, create_task
from taskserver import CAPABILITIES, TaskServer, text_result
from toolservers import legacy_server, modern_server

ERAS = (MODERN, LEGACY)
ERROR = "fairlead.dev/error"


def text_of(answer: Answer) -> str:
    return str(answer.message["result"]["content"][0]["text"])


def refusal(answer: Answer) -> dict[str, Any]:
    return dict(answer.message["result"]["_meta"][ERROR])


@pytest.fixture
async def server() -> AsyncIterator[RawServer]:
    async with modern_server() as started:
        yield started


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("target", ["/mcp", "/servers/default/demo/mcp"])
async def test_clients_see_the_shape_in_lists(tmp_path: Path, server: RawServer, era: str, target: str) -> None:
    async with running(tmp_path, catalog("demo", server.url, [shaped_entry(), "add"])) as gateway:
        listed = await ask(gateway, (modern if era == MODERN else legacy)("tools/list").to(target))
    add, find = listed.message["result"]["tools"]
    prefix = "demo__" if target == "/mcp" else ""
    assert (add["name"], find["name"]) == (f"{prefix}add", f"{prefix}find")
    assert list(find["inputSchema"]["properties"]) == ["query", "limit"]
    assert find["inputSchema"]["required"] == ["query"]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("server_era", ERAS)
@pytest.mark.parametrize("target", ["/mcp", "/servers/default/demo/mcp"])
async def test_a_call_reaches_the_server_with_its_own_names_and_the_fixed_values(
    tmp_path: Path, era: str, server_era: str, target: str
) -> None:
    async with (
        modern_server() if server_era == MODERN else legacy_server() as server,
        running(tmp_path, catalog("demo", server.url, [shaped_entry()], version=server_era)) as gateway,
    ):
        name = "demo__find" if target == "/mcp" else "find"
        given = {"query": "x", "tenant": "other", "debug": True}
        call = calling(name, given, era=era).to(target)
        answer = await ask(gateway, call.with_headers(mcp_param_query="x") if era == MODERN else call)
        sent = server.seen[-1]
    assert json.loads(text_of(answer)) == {"q": "x", "limit": 5, "tenant": "acme"}
    assert sent.params["name"] == "search_v2"
    if server_era == MODERN:
        assert sent.headers["mcp-param-query"] == "x"


async def test_a_modern_clients_headers_are_compared_with_the_clients_names(tmp_path: Path, server: RawServer) -> None:
    async with running(tmp_path, catalog("demo", server.url, [shaped_entry()])) as gateway:
        answer = await ask(gateway, calling("demo__find", {"query": "x"}).with_headers(mcp_param_query="y"))
    assert (answer.status, server.seen) == (400, [])


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("demo__search_v2", "/mcp"),
        ("mcp.demo.search_v2", "/mcp"),
        ("search_v2", "/servers/default/demo/mcp"),
    ],
)
async def test_the_servers_name_is_unknown_to_clients_and_the_message_has_theirs(
    tmp_path: Path, server: RawServer, name: str, target: str
) -> None:
    async with running(tmp_path, catalog("demo", server.url, [shaped_entry(), "add"])) as gateway:
        answer = await ask(gateway, calling(name, {"query": "x"}).to(target))
    shown = "demo__find" if target == "/mcp" else "find"
    assert answer.message["error"]["code"] == -32602
    assert answer.message["error"]["message"] == f"Unknown tool: {name}. Did you mean {shown}?"
    assert server.seen == []


async def test_the_id_has_the_clients_name(tmp_path: Path, server: RawServer) -> None:
    async with running(tmp_path, catalog("demo", server.url, [shaped_entry()])) as gateway:
        call = calling("mcp.demo.find", {"query": "x"}).with_headers(mcp_param_query="x")
        assert json.loads(text_of(await ask(gateway, call)))["q"] == "x"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"q": "x", "query": "x"}, "unknown argument 'q': it is called 'query'"),
        ({"query": "x", "Tenant": "other"}, 'which some parsers read as "tenant"'),
        ({"query": "x", "DEBUG": True}, 'which some parsers read as "debug"'),
        ({"query": "x", "Q": "y"}, 'which some parsers read as "q"'),
        ({}, "query"),
    ],
)
async def test_arguments_that_go_around_the_shape_are_refused(
    tmp_path: Path, server: RawServer, arguments: dict[str, Any], why: str
) -> None:
    async with running(tmp_path, catalog("demo", server.url, [shaped_entry()])) as gateway:
        answer = await ask(gateway, calling("demo__find", arguments, era=LEGACY))
    assert refusal(answer)["code"] == "INVALID_ARGUMENTS"
    assert why in refusal(answer)["message"]
    assert server.seen == []


async def test_servers_with_one_definition_and_different_shapes_are_each_checked_by_their_own(
    tmp_path: Path, server: RawServer
) -> None:
    def shaped_catalog(name: str, override: dict[str, Any]) -> Catalog:
        entry = msgspec.structs.replace(shaped_entry(override), hash=definition_hash(json.dumps(SEARCH).encode()))
        return catalog(name, server.url, [entry])

    async with running(tmp_path, shaped_catalog("bare", {}), shaped_catalog("demo", OVERRIDE)) as gateway:
        bare = await ask(gateway, calling("bare__search_v2", {"q": "x", "tenant": "acme"}, era=LEGACY))
        shaped_answer = await ask(gateway, calling("demo__find", {"query": "x"}, era=LEGACY))
        publish(tmp_path / "documents", shaped_catalog("bare", {"arguments": {"q": {"as": "words"}}}))
        await wait_for_snapshots(gateway, 2)
        renamed = await ask(gateway, calling("bare__search_v2", {"words": "y", "tenant": "acme"}, era=LEGACY))
    assert [json.loads(text_of(answer))["q"] for answer in (bare, shaped_answer, renamed)] == ["x", "x", "y"]


async def test_a_selected_list_is_not_held_against_the_server(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def answer(_: Request) -> dict[str, Any]:
        return {"content": [], "structuredContent": {"items": [1, 2]}, "isError": False}

    tool = shaped_entry({**OVERRIDE, "result": {"select": "items"}})
    async with (
        legacy_server(call=answer) as server,
        running(tmp_path, catalog("demo", server.url, [tool], version=LEGACY)) as gateway,
    ):
        answer_in_part = await ask(gateway, calling("demo__find", {"query": "x"}, era=LEGACY))
    assert text_of(answer_in_part) == "[1,2]"
    assert not [line for line in caplog.messages if "violate" in line]


@pytest.mark.parametrize(("tenant", "allowed"), [("acme", True), ("other", False)])
async def test_policies_speak_the_servers_names(
    tmp_path: Path, server: RawServer, tenant: str, *, allowed: bool
) -> None:
    constraint = {"required": ["q", "tenant"], "properties": {"tenant": {"const": tenant}}}
    rule = Rule(action="Allow", tools=("search_v2",), arguments=constraint)
    policy = Policy(namespace="default", name="one", every=True, rules=(rule,))
    async with running(tmp_path, catalog("demo", server.url, [shaped_entry()]), Rules(policies=(policy,))) as gateway:
        answer = await ask(gateway, calling("demo__find", {"query": "x"}, era=LEGACY))
    assert answer.message["result"]["isError"] is not allowed
    assert len(server.seen) == allowed


async def test_the_audit_log_speaks_the_servers_names(tmp_path: Path, server: RawServer) -> None:
    log = tmp_path / "audit.log"
    settings: dict[str, Any] = {"audit": "all", "audit_file": log, "audit_arguments": "full"}
    async with running(tmp_path, catalog("demo", server.url, [shaped_entry()]), **settings) as gateway:
        await ask(gateway, calling("demo__find", {"query": "x"}, era=LEGACY))
    line = json.loads(log.read_text())
    assert line["tool"] == "mcp.demo.search_v2"
    assert line["arguments"] == {"q": "x", "limit": 5, "tenant": "acme"}


async def test_cached_results_are_found_by_what_the_server_gets(tmp_path: Path, server: RawServer) -> None:
    tool = shaped_entry(latency=DeclaredLatency(cacheable_seconds=60))
    async with running(tmp_path, catalog("demo", server.url, [tool])) as gateway:
        for arguments in ({"query": "x"}, {"query": "x", "limit": 5}, {"query": "x", "tenant": "other"}):
            assert "error" not in (await ask(gateway, calling("demo__find", arguments, era=LEGACY))).message
    assert len(server.seen) == 1


def fail_with(text: str) -> Callable[[Request], dict[str, Any]]:
    return lambda _: {"content": [{"type": "text", "text": text}], "isError": True}


@pytest.mark.parametrize("era", ERAS)
async def test_an_error_of_the_server_names_arguments_as_clients_know_them(tmp_path: Path, era: str) -> None:
    text = "'q' is too short, \"tenant\" and q are fine"
    async with (
        modern_server(call=fail_with(text)) as server,
        running(tmp_path, catalog("demo", server.url, [shaped_entry()])) as gateway,
    ):
        call = calling("demo__find", {"query": "x"}, era=era)
        answer = await ask(gateway, call.with_headers(mcp_param_query="x") if era == MODERN else call)
    assert text_of(answer) == "'query' is too short, \"tenant\" and q are fine"


async def test_a_changed_description_alone_leaves_the_schema_byte_for_byte(tmp_path: Path, server: RawServer) -> None:
    odd = b'{"name":"x","inputSchema":{"type":"object","a":1.0,"b" : [ ]}}'
    async with running(tmp_path, catalog("demo", server.url, [entry(odd, description="ours")])) as gateway:
        body = (await ask(gateway, modern("tools/list"))).body
    assert b'{"type":"object","a":1.0,"b" : [ ]}' in body


def answer_with(document: Any) -> Callable[[Request], dict[str, Any]]:
    text = {"type": "text", "text": json.dumps(document)}
    return lambda _: {"content": [text], "structuredContent": document, "isError": False}


PLAIN: dict[str, Any] = {
    "name": "list_v2",
    "inputSchema": {"type": "object"},
    "outputSchema": {"type": "object", "required": ["items"]},
}
NAMES: dict[str, Any] = {
    "result": {
        "select": "{names: items[].name}",
        "schema": {"type": "object", "properties": {"names": {"type": "array"}}, "required": ["names"]},
    }
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("server_era", ERAS)
@pytest.mark.parametrize("count", [2, 2000])
async def test_clients_get_the_selected_part_of_small_and_large_results(
    tmp_path: Path, era: str, server_era: str, count: int
) -> None:
    document = {"items": [{"name": f"n{number}", "rest": "x" * 20} for number in range(count)]}
    serve = modern_server if server_era == MODERN else legacy_server
    async with (
        serve(call=answer_with(document)) as server,
        running(tmp_path, catalog("demo", server.url, [shaped_entry(NAMES, PLAIN)], version=server_era)) as gateway,
    ):
        result = (await ask(gateway, calling("demo__list_v2", era=era))).message["result"]
    names = {"names": [f"n{number}" for number in range(count)]}
    assert result["structuredContent"] == names
    assert json.loads(result["content"][0]["text"]) == names
    assert "fairlead.dev/warning" not in result.get("_meta", {})


async def test_the_lists_output_schema_is_that_of_the_part(tmp_path: Path, server: RawServer) -> None:
    selecting = shaped_entry({"result": {"select": "items"}}, {**PLAIN, "name": "plain"})
    async with running(tmp_path, catalog("demo", server.url, [shaped_entry(NAMES, PLAIN), selecting])) as gateway:
        named, plain = (await ask(gateway, modern("tools/list"))).message["result"]["tools"]
    assert named["outputSchema"] == NAMES["result"]["schema"]
    assert "outputSchema" not in plain


async def test_a_part_that_does_not_match_its_schema_is_marked(tmp_path: Path) -> None:
    override = {"result": {"select": "{other: items}", "schema": NAMES["result"]["schema"]}}
    async with (
        modern_server(call=answer_with({"items": []})) as server,
        running(tmp_path, catalog("demo", server.url, [shaped_entry(override, PLAIN)])) as gateway,
    ):
        result = (await ask(gateway, calling("demo__list_v2"))).message["result"]
    assert result["structuredContent"] == {"other": []}
    assert result["_meta"]["fairlead.dev/warning"]["code"] == "OUTPUT_SCHEMA_MISMATCH"


async def test_where_the_expression_fails_clients_get_the_whole_result_with_a_mark(tmp_path: Path) -> None:
    async with (
        modern_server(call=answer_with({"others": []})) as server,
        running(
            tmp_path, catalog("demo", server.url, [shaped_entry({"result": {"select": "items"}}, PLAIN)])
        ) as gateway,
    ):
        result = (await ask(gateway, calling("demo__list_v2"))).message["result"]
    assert result["structuredContent"] == {"others": []}
    assert result["_meta"]["fairlead.dev/selection"]["failed"] == "the expression selects nothing of this result"


async def test_a_cached_result_is_the_same_part(tmp_path: Path) -> None:
    tool = shaped_entry(NAMES, PLAIN, latency=DeclaredLatency(cacheable_seconds=60))
    async with (
        modern_server(call=answer_with({"items": [{"name": "a"}]})) as server,
        running(tmp_path, catalog("demo", server.url, [tool])) as gateway,
    ):
        answers = [(await ask(gateway, calling("demo__list_v2", era=era))).message["result"] for era in ERAS]
    assert [answer["structuredContent"] for answer in answers] == [{"names": ["a"]}] * 2
    assert len(server.seen) == 1


KEYED: dict[str, Any] = {
    "name": "fetch",
    "inputSchema": {
        "type": "object",
        "properties": {"id": {"type": "string"}, "api_key": {"type": "string"}},
        "required": ["id", "api_key"],
    },
}
WITH_SECRET: dict[str, Any] = {"arguments": {"api_key": {"secretRef": {"name": "keys"}}}}
KEY = "planted-argument-0d51"


def keyed_catalog(tmp_path: Path, url: str, version: str = MODERN, **more: Any) -> Catalog:
    """A server whose tool `fetch` gets KEY from the credential of the server."""
    store = DirectoryCredentialStore(tmp_path / "credentials")
    ref = store.store(ServerKey("default", "demo"), Credential(arguments={"fetch": {"api_key": KEY}}))
    return catalog("demo", url, [shaped_entry(WITH_SECRET, KEYED, **more)], credential=ref, version=version)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("server_era", ERAS)
async def test_a_secret_is_in_the_request_to_the_server_and_in_nothing_that_is_recorded(
    tmp_path: Path, era: str, server_era: str
) -> None:
    log = tmp_path / "audit.log"
    settings: dict[str, Any] = {"audit": "all", "audit_file": log, "audit_arguments": "full"}
    answer = {"content": [{"type": "text", "text": "fine"}], "isError": False}
    async with (
        (modern_server if server_era == MODERN else legacy_server)(call=lambda _: answer) as server,
        running(tmp_path, keyed_catalog(tmp_path, server.url, server_era), **settings) as gateway,
    ):
        made = await ask(gateway, calling("demo__fetch", {"id": "1", "api_key": "mine"}, era=era))
        listed = await ask(gateway, modern("tools/list"))
        calls = await get(gateway, "/v1/calls")
        sent = server.seen[-1].params["arguments"]
    assert text_of(made) == "fine"
    assert sent == {"id": "1", "api_key": KEY}
    assert listed.message["result"]["tools"][0]["inputSchema"]["required"] == ["id"]
    assert json.loads(log.read_text())["arguments"] == {"id": "1"}
    for text in (log.read_text(), calls.body.decode(), listed.body.decode()):
        assert KEY not in text
        assert "mine" not in text


async def test_a_call_without_its_secret_is_refused(tmp_path: Path, server: RawServer) -> None:
    async with running(tmp_path, catalog("demo", server.url, [shaped_entry(WITH_SECRET, KEYED)])) as gateway:
        answer = await ask(gateway, calling("demo__fetch", {"id": "1"}))
    assert refusal(answer)["code"] == "CONNECTION_LOST"
    assert "secret value of the argument 'api_key' of fetch" in refusal(answer)["message"]
    assert server.seen == []


async def test_a_changed_secret_is_used_from_the_next_snapshot_on_and_finds_no_older_result(tmp_path: Path) -> None:
    async with modern_server() as server:
        latency = DeclaredLatency(cacheable_seconds=60)
        first = keyed_catalog(tmp_path, server.url, latency=latency)
        async with running(tmp_path, first) as gateway:
            for _ in range(2):
                await ask(gateway, calling("demo__fetch", {"id": "1"}))
            assert len(server.seen) == 1
            store = DirectoryCredentialStore(tmp_path / "credentials")
            ref = store.store(ServerKey("default", "demo"), Credential(arguments={"fetch": {"api_key": "other"}}))
            publish(tmp_path / "documents", msgspec.structs.replace(first, credential=ref))
            await wait_for_snapshots(gateway, 2)
            await ask(gateway, calling("demo__fetch", {"id": "1"}))
    assert [request.params["arguments"]["api_key"] for request in server.seen] == [KEY, "other"]


@pytest.mark.parametrize("size", [1, 1000])
async def test_the_result_of_a_task_is_the_selected_part_unless_it_is_large(tmp_path: Path, size: int) -> None:
    server = TaskServer()
    job = {"name": "job", "inputSchema": {"type": "object"}}
    async with raw_server(server.handle) as raw:
        demo = catalog(
            "demo", raw.url, [shaped_entry({"result": {"select": "a"}}, job)], capabilities=Raw(CAPABILITIES)
        )
        async with running(tmp_path, demo) as gateway:
            task = await create_task(gateway)
            server.ends("t1", result=text_result(json.dumps({"a": ["some text"] * size})))
            result = (await ask(gateway, about("tasks/get", task))).message["result"]["result"]
    if size == 1:
        assert result == text_result('["some text"]')
    else:
        assert json.loads(result["content"][0]["text"]) == {"a": ["some text"] * size}
        assert result["_meta"]["fairlead.dev/selection"] == {"failed": "no part is selected of large results of tasks"}


async def test_a_legacy_client_that_waits_for_a_task_gets_the_selected_part(tmp_path: Path) -> None:
    server = TaskServer()
    must = {"name": "must", "inputSchema": {"type": "object"}}
    async with raw_server(server.handle) as raw:
        demo = catalog(
            "demo", raw.url, [shaped_entry({"result": {"select": "a"}}, must)], capabilities=Raw(CAPABILITIES)
        )
        async with running(tmp_path, demo) as gateway:
            session = await session_of(gateway, {})
            ends = {"ends": {"result": text_result('{"a": "the end"}')}}
            answer = await ask(gateway, calling("demo__must", ends, era=LEGACY, session=session))
    assert answer.message["result"] == text_result("the end")
