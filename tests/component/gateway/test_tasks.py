"""Tasks of servers through the gateway: their owner, their location, and the decision about each request."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from askers import PICKED
from fairlead_api.documents.catalog import Catalog, ChildEndpoint
from fairlead_api.documents.rules import Rules
from fairlead_app.gateway import Gateway
from fairlead_mcp.host import ChildHost
from fairlead_mcp.methods import TASKS
from gatewayworld import (
    LEGACY,
    Ask,
    Wire,
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
from linkservers import tcp_server
from policyworld import by
from rawserver import Reply, Request, raw_server
from stdio_servers.tasks_stdio import response
from tasks_gateway import DENIED, about, calls, create_task, demo, listen_to_tasks, notification, trust_in, world
from taskserver import ASKED, CAPABILITIES, TaskServer, text_result
from toolservers import TASKS_STDIO, tool
from waiting import eventually


async def status_and_code(gateway: Gateway, request: Ask) -> tuple[int, int]:
    answer = await ask(gateway, request)
    return answer.status, answer.code


async def test_the_result_of_a_task_is_in_the_form_that_mcp_has_for_it(tmp_path: Path) -> None:
    server = TaskServer()
    async with world(tmp_path, server) as (gateway, _):
        task = await create_task(gateway)
        for given, content in (({"content": "x", "_meta": None}, "x"), ({"a": 1}, '{"a":1}')):
            server.ends("t1", result=given)
            done = (await ask(gateway, about("tasks/get", task, header=task))).message["result"]
            assert done["result"]["content"] == [{"type": "text", "text": content}]
            assert "_meta" not in done["result"]


@pytest.mark.parametrize("events", [False, True], ids=["answers in JSON", "answers in event streams"])
async def test_a_task_is_followed_to_its_end_under_a_sealed_id(tmp_path: Path, events: bool) -> None:
    server = TaskServer(events=events)
    async with world(tmp_path, server) as (gateway, _):
        task = await create_task(gateway)
        assert task not in server.tasks
        working = (await ask(gateway, about("tasks/get", task))).message["result"]
        assert (working["taskId"], working["status"], working["ttlMs"]) == (task, "working", 60_000)
        server.ends("t1", result=text_result("done"))
        done = (await ask(gateway, about("tasks/get", task, header=task))).message["result"]
        assert (done["taskId"], done["status"], done["result"]) == (task, "completed", text_result("done"))
        assert (await ask(gateway, about("tasks/cancel", task))).message["result"]["resultType"] == "complete"
        assert [(method, params["taskId"], headers["mcp-name"]) for method, params, headers in server.seen] == [
            ("tasks/get", "t1", "t1"),
            ("tasks/get", "t1", "t1"),
            ("tasks/cancel", "t1", "t1"),
        ]
        server.tasks.clear()  # its time to live is over
        gone = (await ask(gateway, about("tasks/get", task))).message["error"]
        assert gone == {"code": -32602, "message": f"no task {task}"}


async def test_a_task_of_a_child_process_is_followed_notified_of_and_waited_for(tmp_path: Path) -> None:
    child = ChildEndpoint(command=sys.executable, args=(TASKS_STDIO,))
    children = ChildHost()
    try:
        document = catalog("demo", child, ["job"], capabilities=Raw(CAPABILITIES))
        async with running(tmp_path, document, children=children, shared_children=False) as gateway:
            task = await create_task(gateway)
            ended = (await ask(gateway, about("tasks/get", task))).message["result"]
            assert (ended["taskId"], ended["status"]) == (task, "completed")
            async with await Wire.connect(gateway) as wire:
                assert (await listen_to_tasks(wire, [task]))["taskIds"] == [task]
                assert (await notification(wire))["params"]["result"] == ended["result"]
            waited = (await ask(gateway, calling("demo__job", {}, era=LEGACY))).message["result"]
            assert waited["content"] == ended["result"]["content"]
    finally:
        await children.aclose()


@pytest.mark.parametrize("where", ["a child", "behind its gate"])
async def test_a_task_of_a_process_at_another_replica_is_refused_by_its_cause(tmp_path: Path, where: str) -> None:
    """The other replica's process has a task with the same id that belongs to another client."""
    hosts = ChildHost(), ChildHost()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    async with contextlib.AsyncExitStack() as stack:
        child = ChildEndpoint(command=sys.executable, args=(TASKS_STDIO,))
        reached = child if where == "a child" else await stack.enter_async_context(tcp_server(response))
        document = catalog("demo", reached, ["job"], capabilities=Raw(CAPABILITIES))
        settings: dict[str, Any] = {"shared_children": False, "session_key": "k"}
        for host in hosts:
            stack.push_async_callback(host.aclose)
        first, second = [
            await stack.enter_async_context(running(tmp_path / name, document, children=host, **settings))
            for name, host in zip(("one", "two"), hosts, strict=True)
        ]
        tasks = [await create_task(gateway) for gateway in (first, second)]
        for gateway, own, foreign in ((first, tasks[0], tasks[1]), (second, tasks[1], tasks[0])):
            assert (await ask(gateway, about("tasks/get", own))).message["result"]["taskId"] == own
            for method in ("tasks/get", "tasks/update", "tasks/cancel"):
                answer = await ask(gateway, about(method, foreign, inputResponses={}))
                assert (answer.status, answer.code) == (400, -32602)
                assert "at another replica of the gateway" in answer.message["error"]["message"]


async def test_a_question_of_a_task_does_not_show_the_servers_own_id(tmp_path: Path) -> None:
    server = TaskServer()
    async with world(tmp_path, server) as (gateway, _):
        task = await create_task(gateway, ends="asks")
        waiting = (await ask(gateway, about("tasks/get", task))).message["result"]
        (key,) = waiting["inputRequests"]
        assert key == f"{task}:1"
        updated = await ask(gateway, about("tasks/update", task, inputResponses={key: PICKED}))
        assert updated.message["result"]["resultType"] == "complete"
        _, params, _ = server.seen[-1]
        assert params["inputResponses"] == {"t1:1": PICKED}


async def test_a_task_with_a_crowd_of_questions_is_refused(tmp_path: Path) -> None:
    """Each question would get a longer name in the answer."""
    server = TaskServer()
    async with world(tmp_path, server) as (gateway, _):
        task = await create_task(gateway)
        server.ends("t1", status="input_required", inputRequests={f"t1:{n}": ASKED for n in range(65)})
        answer = await ask(gateway, about("tasks/get", task))
        assert "more than 64 questions" in answer.message["error"]["message"]


async def test_checks_of_a_request_about_a_task_come_in_their_order(tmp_path: Path) -> None:
    """First the declared capability, then the header, then the id. Methods for tasks of earlier revisions are
    unknown."""
    async with world(tmp_path, TaskServer()) as (gateway, _):
        extension_not_declared = modern("tasks/get", {"taskId": "made-up"}).with_headers(mcp_name="other")
        answer = await ask(gateway, extension_not_declared)
        assert (answer.status, answer.code) == (400, -32021)
        assert answer.message["error"]["data"] == {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        assert await status_and_code(gateway, about("tasks/get", "made-up", header="other")) == (400, -32020)
        for made_up in ("made-up", "t1", "", "fairlead-task." + "0" * 32 + ".W10"):
            assert await status_and_code(gateway, about("tasks/get", made_up)) == (400, -32602)
        for method in ("tasks/list", "tasks/result", "tasks/pause", "elsewhere/get"):
            assert await status_and_code(gateway, about(method, "t1")) == (404, -32601)
        for method in ("tasks/get", "tasks/update", "tasks/cancel", "tasks/list", "tasks/result", "elsewhere/get"):
            assert await status_and_code(gateway, legacy(method, {"taskId": "t1"})) == (200, -32601)


async def test_a_task_cannot_be_reached_by_another_principal(tmp_path: Path) -> None:
    """Tested with the owner's id, with an altered id, and with the server's own id."""
    trust = trust_in("alice", "bob")
    server = TaskServer()
    async with world(tmp_path, server, trust=trust) as (gateway, _):
        answer = await ask(gateway, by("alice", calls()))
        task = answer.message["result"]["taskId"]
        server.ends("t1", result=text_result("secret"))
        assert (await ask(gateway, by("alice", about("tasks/get", task)))).message["result"]["result"] == text_result(
            "secret"
        )
        head, mac, payload = task.split(".")
        own = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        other = base64.urlsafe_b64encode(own.replace(b"t1", b"t2")).rstrip(b"=").decode()
        altered = (f"{head}.{mac}.{other}", f"{head}.{'0' * 32}.{payload}", task + "A")
        before = len(server.seen)
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            for who, ident in (("bob", task), ("bob", "t1"), *(("alice", ident) for ident in altered)):
                answer = await ask(gateway, by(who, about(method, ident, inputResponses={})))
                assert (answer.status, answer.code) == (400, -32602), (method, who, ident)
                assert "Unknown task" in answer.message["error"]["message"]
        assert len(server.seen) == before


async def test_a_task_outlives_the_gateway_and_is_known_to_each_replica_with_its_key(tmp_path: Path) -> None:
    server = TaskServer()
    async with raw_server(server.handle) as raw:
        for name in ("one", "two", "other"):
            (tmp_path / name).mkdir()
        async with running(tmp_path / "one", demo(raw.url), session_key="k") as gateway:
            task = await create_task(gateway)
        async with running(tmp_path / "two", demo(raw.url), session_key="k") as gateway:
            result = (await ask(gateway, about("tasks/get", task))).message["result"]
            assert (result["taskId"], result["status"]) == (task, "working")
        async with running(tmp_path / "other", demo(raw.url), session_key="another") as gateway:
            assert await status_and_code(gateway, about("tasks/get", task)) == (400, -32602)


async def test_a_task_is_decided_about_with_each_request(tmp_path: Path) -> None:
    """The task's tool is denied, allowed again, and removed."""
    server = TaskServer()
    async with world(tmp_path, server) as (gateway, raw):
        task = await create_task(gateway)
        publish(tmp_path / "documents", DENIED)
        await wait_for_snapshots(gateway, 2)
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            assert await status_and_code(gateway, about(method, task, inputResponses={})) == (400, -32602)
        assert server.seen == []
        publish(tmp_path / "documents", Rules())
        await wait_for_snapshots(gateway, 3)
        assert (await ask(gateway, about("tasks/get", task))).status == 200
        publish(tmp_path / "documents", catalog("demo", raw.url, ["plain"], capabilities=Raw(CAPABILITIES)))
        await wait_for_snapshots(gateway, 4)
        assert await status_and_code(gateway, about("tasks/get", task)) == (400, -32602)


async def test_a_task_is_judged_by_the_definition_that_is_approved_when_it_is_asked_for(tmp_path: Path) -> None:
    """At a server with `pin: true`, the tool is approved with another schema, held back, and approved again."""
    server = TaskServer()

    def pinned_catalog(*tools: Any) -> Catalog:
        return catalog("demo", raw.url, [*tools], pinned=True, capabilities=Raw(CAPABILITIES))

    async def is_warned() -> bool:
        result = (await ask(gateway, about("tasks/get", task))).message["result"]["result"]
        return "fairlead.dev/warning" in result.get("_meta", {})

    async with raw_server(server.handle) as raw, running(tmp_path, pinned_catalog(tool("job"))) as gateway:
        task = await create_task(gateway, ends={"result": {**text_result("{}"), "structuredContent": {}}})
        assert not await is_warned()
        strict = tool("job", outputSchema={"type": "object", "required": ["n"]})
        publish(tmp_path / "documents", pinned_catalog(strict))
        await wait_for_snapshots(gateway, 2)
        assert await is_warned()
        publish(tmp_path / "documents", pinned_catalog(tool("other")))
        await wait_for_snapshots(gateway, 3)
        before = len(server.seen)
        assert await status_and_code(gateway, about("tasks/get", task)) == (400, -32602)
        assert len(server.seen) == before
        publish(tmp_path / "documents", pinned_catalog(tool("job")))
        await wait_for_snapshots(gateway, 4)
        assert not await is_warned()


async def test_a_task_of_a_server_that_moved_or_is_gone_is_unknown(tmp_path: Path) -> None:
    """Another server with the same name does not know the task, and gets only a meaningless id."""
    server = TaskServer()
    heir = TaskServer()
    async with world(tmp_path, server) as (gateway, _), raw_server(heir.handle) as raw:
        task = await create_task(gateway)
        publish(tmp_path / "documents", demo(raw.url))
        await wait_for_snapshots(gateway, 2)
        gone = (await ask(gateway, about("tasks/get", task))).message["error"]
        assert gone == {"code": -32602, "message": f"no task {task}"}
        publish(tmp_path / "documents", catalog("demo", raw.url, ["plain"], online=False, on_disconnect="Remove"))
        await wait_for_snapshots(gateway, 3)
        assert await status_and_code(gateway, about("tasks/get", task)) == (400, -32602)
        assert await status_and_code(gateway, about("tasks/get", "t1")) == (404, -32601)
        assert len(heir.seen) == 1


async def test_a_request_about_a_task_goes_to_the_pod_that_has_it(tmp_path: Path) -> None:
    together = asyncio.Barrier(4)

    class Pod(TaskServer):
        async def handle(self, request: Request, reply: Reply) -> None:
            if request.method == "tools/call":
                await together.wait()  # so that each of four calls needs a connection of its own
            await super().handle(request, reply)

    pods = [Pod(), Pod()]
    async with raw_server(pods[0].handle) as first, raw_server(pods[1].handle) as second:

        async def resolve(host: str, port: int) -> list[tuple[str, int]]:
            return [("127.0.0.1", first.port), ("127.0.0.1", second.port)]

        document = demo("http://demo.tools.svc:80/mcp")
        async with running(tmp_path, document, resolve=resolve) as gateway:
            tasks = await asyncio.gather(*(create_task(gateway, number=number) for number in range(4)))
            assert all(pod.tasks for pod in pods)
            for task in tasks * 2:
                message = (await ask(gateway, about("tasks/get", task))).message
                assert message["result"]["taskId"] == task
            for pod in pods:
                assert len([None for method, *_ in pod.seen if method == "tasks/get"]) == 2 * len(pod.tasks)
                for ident in pod.tasks:
                    pod.ends(ident, status="input_required", inputRequests={})
            for task in tasks * 2:
                assert (await ask(gateway, about("tasks/update", task, inputResponses={}))).status == 200
            assert {task["status"] for pod in pods for task in pod.tasks.values()} == {"completed"}
            async with await Wire.connect(gateway) as wire:
                assert (await listen_to_tasks(wire, tasks))["taskIds"] == tasks
                heard = [(await notification(wire))["params"]["taskId"] for _ in tasks]
                assert sorted(heard) == sorted(tasks)


async def test_no_quota_and_no_duration_of_a_tool_counts_for_its_tasks(tmp_path: Path) -> None:
    server = TaskServer()
    async with raw_server(server.handle) as raw:
        limited = entry(tool("job"), calls_per_minute=1)
        async with running(tmp_path, catalog("demo", raw.url, [limited], capabilities=Raw(CAPABILITIES))) as gateway:
            task = await create_task(gateway)
            async with await Wire.connect(gateway) as wire:
                for _ in range(30):
                    assert (await wire.ask(about("tasks/get", task))).status == 200
            assert (await ask(gateway, calls())).refusal == "RATE_LIMITED"
            seen = gateway.outbox.samples.since(0, gateway.endpoint.clock(), 0.0)
            assert [attempt.outcome for _, attempts in seen for attempt in attempts] == ["neutral"]


async def test_a_caller_with_all_its_tasks_open_gets_answers_at_once_or_a_refusal(tmp_path: Path) -> None:
    server = TaskServer()
    async with world(tmp_path, server, open_tasks=2) as (gateway, _):
        first, _ = [await create_task(gateway) for _ in range(2)]
        assert (await ask(gateway, calls("job"))).message["result"]["content"] == text_result("at once")["content"]
        refused = await ask(gateway, calls("must"))
        assert refused.refusal == "RATE_LIMITED"
        assert "2 open tasks" in refused.message["result"]["content"][0]["text"]
        server.ends("t1", result=text_result("done"))
        await ask(gateway, about("tasks/get", first))
        await create_task(gateway, "must")
        assert server.declared == [True, True, False, False, True]


async def test_a_task_that_nobody_asked_for_is_cancelled_and_never_passed_on(tmp_path: Path) -> None:
    server = TaskServer()
    async with world(tmp_path, server) as (gateway, _):
        for request in (calling("demo__rogue", {}), calling("demo__rogue", {}, era=LEGACY)):
            server.seen.clear()
            assert (await ask(gateway, request)).refusal == "UPSTREAM_ERROR"
            if request.message["params"].get("_meta"):
                await eventually(lambda: bool(server.seen))
                assert server.seen[0][0] == "tasks/cancel"


async def test_a_modern_client_without_tasks_is_told_which_extension_it_lacks(tmp_path: Path) -> None:
    async with world(tmp_path, TaskServer()) as (gateway, _):
        answer = await ask(gateway, calling("demo__must", {}))
        assert (answer.status, answer.code) == (400, -32021)
        assert answer.message["error"]["data"] == {"requiredCapabilities": {"extensions": {TASKS: {}}}}


async def test_the_wish_for_a_task_of_2025_11_25_is_ignored(tmp_path: Path) -> None:
    """The capability `tasks` is not declared in either era."""
    seen: list[dict[str, Any]] = []
    server = TaskServer()

    async def handle(request: Request, reply: Reply) -> None:
        seen.append(request.params)
        await server.handle(request, reply)

    async with raw_server(handle) as raw, running(tmp_path, demo(raw.url)) as gateway:
        params = {"name": "demo__plain", "arguments": {}, "task": {"ttl": 1000}}
        for request in (legacy("tools/call", params), modern("tools/call", params)):
            assert (await ask(gateway, request)).message["result"]["isError"] is False
        assert ["task" in params for params in seen if "name" in params] == [False, False]
        hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        old = (await ask(gateway, legacy("initialize", hello))).message["result"]["capabilities"]
        new = (await ask(gateway, modern("server/discover"))).message["result"]["capabilities"]
        assert ("tasks" in old, "tasks" in new) == (False, False)
        assert "extensions" not in old
        assert new["extensions"] == {TASKS: {}}
