"""`notifications/tasks` through the gateway: on streams of the task's owner, whether or not the server sends
notifications."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from fairlead_api.documents.rules import Rules
from gatewayworld import META, Wire, ask, modern, publish, running
from policyworld import by
from rawserver import raw_server
from tasks_gateway import DENIED, about, calls, create_task, demo, listen_to_tasks, notification, trust_in, world
from taskserver import TaskServer, text_result
from waiting import eventually


async def test_a_client_is_notified_of_its_task_though_the_server_notifies_nobody(tmp_path: Path) -> None:
    """A notification has the content of an answer to `tasks/get`, with the client's ids. The end of the task is
    audited."""
    server = TaskServer()
    log = tmp_path / "audit"
    async with world(tmp_path, server, audit="all", audit_file=log, open_tasks=1) as (gateway, _):
        task = await create_task(gateway, ends="asks")
        async with await Wire.connect(gateway) as wire:
            assert await listen_to_tasks(wire, [task]) == {"taskIds": [task], "toolsListChanged": True}
            event = await notification(wire)
            assert event["method"] == "notifications/tasks"
            assert event["params"]["status"] == "input_required"
            assert list(event["params"]["inputRequests"]) == [f"{task}:1"]
            await eventually(lambda: len(server.seen) > 2)
            server.ends("t1", result=text_result("done"))
            ended = (await notification(wire))["params"]
            polled = (await ask(gateway, about("tasks/get", task))).message["result"]
            assert ended.pop("_meta") == {META + "subscriptionId": "s"}
            for said_of_now in (ended, polled):
                del said_of_now["lastUpdatedAt"]  # a change of only this member causes no notification
            assert {"resultType": "complete", **ended} == {name: polled[name] for name in polled if name != "_meta"}
        await eventually(lambda: b'"method":"notifications/tasks"' in log.read_bytes())
        await create_task(gateway, "must")  # the earlier task is not open any more


async def test_a_client_is_notified_when_the_server_does_so_also_by_another_gateway(tmp_path: Path) -> None:
    server = TaskServer(poll_ms=3_600_000, notifies=True)
    async with raw_server(server.handle) as raw:
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
        async with running(tmp_path / "one", demo(raw.url), session_key="k") as gateway:
            task = await create_task(gateway)
        async with (
            running(tmp_path / "two", demo(raw.url), session_key="k") as gateway,
            await Wire.connect(gateway) as wire,
        ):
            assert (await listen_to_tasks(wire, [task]))["taskIds"] == [task]
            assert (await notification(wire))["params"]["status"] == "working"
            await eventually(lambda: "t1" in server.streams)
            server.ends("t1", result=text_result("done"))
            await server.notify("t1")
            ended = (await notification(wire))["params"]
            assert (ended["taskId"], ended["status"], ended["result"]) == (task, "completed", text_result("done"))
            await eventually(raw.broken_off.is_set)  # the gateway closes its stream after the last task


async def test_notifications_of_a_task_reach_its_owner_alone(tmp_path: Path) -> None:
    server = TaskServer(notifies=True)
    async with world(tmp_path, server, trust=trust_in("alice", "bob")) as (gateway, _):
        task = (await ask(gateway, by("alice", calls()))).message["result"]["taskId"]
        head, _, payload = task.split(".")
        for who, ident in (("bob", task), ("bob", "t1"), ("alice", "t1"), ("alice", f"{head}.{'0' * 32}.{payload}")):
            async with await Wire.connect(gateway) as wire:
                assert await listen_to_tasks(wire, [ident], who) == {"toolsListChanged": True}
        assert (server.seen, server.streams) == ([], {})
        extension_not_declared = modern("subscriptions/listen", {"notifications": {"taskIds": [task]}})
        answer = await ask(gateway, by("alice", extension_not_declared))
        assert (answer.status, answer.code) == (400, -32021)


async def test_notifications_of_a_task_end_when_its_tool_is_denied(tmp_path: Path) -> None:
    server = TaskServer()
    async with world(tmp_path, server) as (gateway, _), await Wire.connect(gateway) as wire:
        await listen_to_tasks(wire, [await create_task(gateway)])
        assert (await notification(wire))["params"]["status"] == "working"
        publish(tmp_path / "documents", DENIED)
        assert (await notification(wire))["method"] == "notifications/tools/list_changed"
        server.ends("t1", result=text_result("secret"))
        await eventually(lambda: not [task for task in asyncio.all_tasks() if "listen to tasks" in task.get_name()])
        publish(tmp_path / "documents", Rules())
        assert (await notification(wire))["method"] == "notifications/tools/list_changed"


async def test_a_client_is_notified_once_that_the_result_of_its_task_is_too_large(tmp_path: Path) -> None:
    """The notification reports a failure with the error of `tasks/get`. The server is not asked again."""
    server = TaskServer()
    log = tmp_path / "audit"
    async with (
        world(tmp_path, server, max_result_bytes=4096, audit="all", audit_file=log, open_tasks=1) as (gateway, _),
        await Wire.connect(gateway) as wire,
    ):
        task = await create_task(gateway)
        await listen_to_tasks(wire, [task])
        assert (await notification(wire))["params"]["status"] == "working"
        server.ends("t1", result=text_result("x" * 8192))
        told = (await notification(wire))["params"]
        error = (await ask(gateway, about("tasks/get", task))).message["error"]
        assert error["data"]["fairlead.dev/error"]["code"] == "RESULT_TOO_LARGE"
        assert (told["taskId"], told["status"], told["error"]) == (task, "failed", error)
        await eventually(lambda: not [task for task in asyncio.all_tasks() if "listen to tasks" in task.get_name()])
        await eventually(lambda: b'"method":"notifications/tasks"' in log.read_bytes())
        (line,) = [each for each in log.read_text().splitlines() if "notifications/tasks" in each]
        assert json.loads(line)["outcome"] == "RESULT_TOO_LARGE"
        await create_task(gateway, "must")  # the earlier task is not open any more
